package table

import (
	"math"
	"math/bits"

	"github.com/spillway-kv/spillway/engine/offheap"
)

const (
	bucketBytes = 8

	// A partition has rows of rowBuckets buckets, first one, then twice as many
	// at each growth up to rowsMax. All are powers of two.
	rowBits    = 9
	rowBuckets = 1 << rowBits // one page
	rowsMax    = 16
	bucketsMax = rowsMax * rowBuckets
	// blocksPerPartitionMax is the mean that New plans for: what half of
	// bucketsMax holds, so that a partition above the mean has room.
	blocksPerPartitionMax = bucketsMax / 2 / 4 * 3
)

// buckets is the bucket array of all partitions. It holds row 0 of every
// partition, one partition after the other, then row 1 of every partition, and so
// on, 16 rows each:
//
//	row 0 of partition 0 | row 0 of partition 1 | ... | row 1 of partition 0 | ...
//
// So a partition grows in place into memory never touched before; because all
// partitions grow at about the same time the touched memory is contiguous, as huge
// pages want it; and the low bits of an ID, masked to the rows in use, are its
// home's place in the array:
//
//	ID.Lo = ... | row: 0..4 bits used | partition | bucket in its row: 9 bits |
type buckets struct {
	mem        *offheap.Array[uint64]
	all        []uint64
	partitions []partition // a power of two long
	rowShift   uint8       // a place's bits below its row
	count      int         // buckets of all partitions together
	old        []uint64    // a partition's old buckets while it doubles
}

type partition struct {
	rowMask uint16 // rows - 1
	entries uint16
}

func (p partition) buckets() int { return (int(p.rowMask) + 1) * rowBuckets }

func newBuckets(partitions int) (buckets, error) {
	mem, err := offheap.Make[uint64](partitions * bucketsMax)
	if err != nil {
		return buckets{}, err
	}
	return buckets{
		mem:        mem,
		all:        mem.Slice(),
		partitions: make([]partition, partitions),
		rowShift:   uint8(rowBits + bits.TrailingZeros(uint(partitions))),
		count:      partitions * rowBuckets,
		old:        make([]uint64, bucketsMax/2),
	}, nil
}

func partitionsFor(maxBlocks int) int {
	partitions := 1
	for partitions*blocksPerPartitionMax < maxBlocks {
		partitions *= 2
	}
	return partitions
}

// partitionOf is the partition of an ID with this Lo, and of a place.
func (b *buckets) partitionOf(lo uint64) *partition {
	return &b.partitions[lo>>rowBits&uint64(len(b.partitions)-1)]
}

// home is the place at which the search for an ID with this Lo starts.
func (b *buckets) home(lo uint64) uint64 {
	return b.wrap(lo, b.partitionOf(lo).rowMask)
}

// next is the place after this one in its partition, which wraps around.
func (b *buckets) next(place uint64) uint64 {
	place++
	if place%rowBuckets != 0 {
		return place
	}
	place -= rowBuckets // back to the start of the row
	return b.wrap(place+1<<(b.rowShift&63), b.partitionOf(place).rowMask)
}

func (b *buckets) wrap(lo uint64, rowMask uint16) uint64 {
	rows := uint64(rowMask)<<(b.rowShift&63) | (1<<(b.rowShift&63) - 1)
	return lo & rows
}

// indexOf numbers the places of one partition in the order of next.
func (b *buckets) indexOf(place uint64) uint64 {
	return place>>(b.rowShift&63)<<rowBits | place%rowBuckets
}

// entriesMax is the most entries for a partition's buckets: three quarters.
func entriesMax(buckets int) int { return buckets / 4 * 3 }

func (b *buckets) residentBytes() int64 {
	const partitionBytes = 4
	return int64(b.count+bucketsMax/2)*bucketBytes + int64(len(b.partitions))*partitionBytes
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
	count := rowBuckets
	for float64(entriesMax(count)) < worst {
		count *= 2
	}
	full := buckets{count: partitions * count, partitions: make([]partition, partitions)}
	return full.residentBytes()
}

// reserve gives every partition the buckets that its share of so many entries
// needs.
func (b *buckets) reserve(entries int) {
	share := (entries + len(b.partitions) - 1) / len(b.partitions)
	rows := 1
	for rows < rowsMax && entriesMax(rows*rowBuckets) < share {
		rows *= 2
	}
	for i := range b.partitions {
		b.partitions[i].rowMask = uint16(rows - 1)
	}
	b.count = len(b.partitions) * rows * rowBuckets
}

// grow doubles the partition of an ID with this Lo. records tell the entries'
// IDs.
func (b *buckets) grow(lo uint64, records []Record) {
	p := b.partitionOf(lo)
	count := p.buckets()
	old := b.old[:count]
	for row := range uint64(p.rowMask) + 1 {
		start := b.wrap(lo, 0)&^(rowBuckets-1) + row<<(b.rowShift&63)
		from := b.all[start : start+rowBuckets]
		copy(old[row*rowBuckets:], from)
		clear(from)
	}
	p.rowMask = 2*p.rowMask + 1
	b.count += count
	for len(old) > 0 {
		group := old[:groupSize] // count is a multiple of it
		old = old[groupSize:]
		var homes [groupSize]uint64 // first all loads of records, which overlap
		for i, bucket := range group {
			homes[i] = b.home(records[refOf(bucket)].ID.Lo) // record 0 if empty
		}
		for i, bucket := range group {
			if bucket != 0 {
				b.put(homes[i], bucket)
			}
		}
	}
}

// put stores bucket in the first empty place from this one on.
func (b *buckets) put(place, bucket uint64) {
	for b.all[place] != 0 {
		place = b.next(place)
	}
	b.all[place] = bucket
}
