package table

import (
	"math"
	"math/bits"

	"github.com/spillway-kv/spillway/engine/offheap"
)

const (
	bucketBytes = 8

	// A partition starts with bucketsMin buckets and doubles up to bucketsMax.
	// Both are powers of two; a partition's number of buckets fits a uint16.
	bucketsMin = 512
	bucketsMax = 8192
	// blocksPerPartitionMax is the mean that New plans for: what half of
	// bucketsMax holds, so that a partition above the mean has room.
	blocksPerPartitionMax = bucketsMax / 2 / 4 * 3
)

// buckets is the bucket array of all partitions. It lies in rows: row r holds
// buckets r×512 to r×512+511 of every partition, one partition after the other.
//
//	row 0   | partition 0, buckets 0..511    | partition 1, buckets 0..511    | ...
//	row 1   | partition 0, buckets 512..1023 | partition 1, buckets 512..1023 | ...
//	row 15  | ...
//
// So a partition grows in place into memory never touched before, and because
// all partitions grow at about the same time the touched memory is contiguous,
// as huge pages want it.
type buckets struct {
	mem           *offheap.Array[uint64]
	all           []uint64
	partitions    []partition // a power of two long
	partitionBits uint8
	count         int      // buckets of all partitions together
	old           []uint64 // a partition's old buckets while it doubles
}

type partition struct {
	mask    uint16 // buckets - 1
	entries uint16
}

func newBuckets(partitions int) (buckets, error) {
	mem, err := offheap.Make[uint64](partitions * bucketsMax)
	if err != nil {
		return buckets{}, err
	}
	b := buckets{
		mem:           mem,
		all:           mem.Slice(),
		partitions:    make([]partition, partitions),
		partitionBits: uint8(bits.TrailingZeros(uint(partitions))),
		count:         partitions * bucketsMin,
		old:           make([]uint64, bucketsMax/2),
	}
	for i := range b.partitions {
		b.partitions[i].mask = bucketsMin - 1
	}
	return b, nil
}

func partitionsFor(maxBlocks int) int {
	partitions := 1
	for partitions*blocksPerPartitionMax < maxBlocks {
		partitions *= 2
	}
	return partitions
}

// home is where the search for an ID with this Lo starts: partition and bucket.
func (b *buckets) home(lo uint64) (part, i uint64) {
	part = lo & uint64(len(b.partitions)-1)
	return part, lo >> (b.partitionBits & 63) & uint64(b.partitions[part].mask)
}

// at is bucket i of a partition.
func (b *buckets) at(part, i uint64) *uint64 {
	row := i / bucketsMin
	return &b.all[(row<<(b.partitionBits&63)|part)*bucketsMin+i%bucketsMin]
}

// entriesMax is the most entries for a partition's buckets: three quarters.
func entriesMax(buckets int) int { return buckets / 4 * 3 }

func (b *buckets) residentBytes() int64 {
	const partitionBytes = 4
	return int64(b.count+len(b.old))*bucketBytes + int64(len(b.partitions))*partitionBytes
}

// bucketsBytesMax bounds residentBytes for random IDs: every partition as large
// as one with seven standard deviations more than its share needs to be.
func bucketsBytesMax(maxBlocks int) int64 {
	partitions := partitionsFor(maxBlocks)
	worst := float64(maxBlocks)
	if partitions > 1 {
		mean := worst / float64(partitions)
		worst = mean + 7*math.Sqrt(mean)
	}
	count := bucketsMin
	for float64(entriesMax(count)) < worst {
		count *= 2
	}
	full := buckets{
		count:      partitions * count,
		old:        make([]uint64, bucketsMax/2),
		partitions: make([]partition, partitions),
	}
	return full.residentBytes()
}

// grow doubles a partition. records tell the entries' IDs.
func (b *buckets) grow(part uint64, records []Record) {
	p := &b.partitions[part]
	count := uint64(p.mask) + 1
	old := b.old[:count]
	for i := range old {
		from := b.at(part, uint64(i))
		old[i], *from = *from, 0
	}
	p.mask = uint16(2*count - 1)
	b.count += int(count)
	for len(old) > 0 {
		group := old[:groupSize] // count is a multiple of it
		old = old[groupSize:]
		var homes [groupSize]uint64 // first all loads of records, which overlap
		for i, bucket := range group {
			_, homes[i] = b.home(records[refOf(bucket)].ID.Lo) // record 0 if empty
		}
		for i, bucket := range group {
			if bucket != 0 {
				b.put(part, homes[i], bucket)
			}
		}
	}
}

// put stores bucket in the first empty place from bucket i on.
func (b *buckets) put(part, i, bucket uint64) {
	mask := uint64(b.partitions[part].mask)
	at := b.at(part, i)
	for *at != 0 {
		i = (i + 1) & mask
		at = b.at(part, i)
	}
	*at = bucket
}
