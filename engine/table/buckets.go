package table

import (
	"math"
	"math/bits"

	"github.com/spillway-kv/spillway/engine/offheap"
)

const (
	bucketBytes = 8

	// A partition has rows of rowBuckets buckets, a power of two: first 1, then at each
	// growth 2, 3, 4, 6, 8, 12 and at last rowsMax.
	rowBits    = 9
	rowBuckets = 1 << rowBits // one page
	rowsMax    = 16
	bucketsMax = rowsMax * rowBuckets
	oldMax     = bucketsMax / 4 * 3 // before the last growth
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
// pages want it; and the low bits of an ID, the row scaled to those in use, are its
// home's place in the array:
//
//	ID.Lo = ... | row: 16 bits | partition | bucket in its row: 9 bits |
type buckets struct {
	mem        *offheap.Array[uint64]
	all        []uint64
	partitions []partition // a power of two long
	rowShift   uint8       // a place's bits below its row
	count      int         // buckets of all partitions together
	old        []uint64    // a partition's old buckets while it grows
}

type partition struct {
	rows    uint16
	entries uint16
}

func (p partition) buckets() int { return int(p.rows) * rowBuckets }

func newBuckets(partitions int) (buckets, error) {
	mem, err := offheap.Make[uint64](partitions * bucketsMax)
	if err != nil {
		return buckets{}, err
	}
	b := buckets{
		mem:        mem,
		all:        mem.Slice(),
		partitions: make([]partition, partitions),
		rowShift:   uint8(rowBits + bits.TrailingZeros(uint(partitions))),
		old:        make([]uint64, oldMax),
	}
	b.reserve(0)
	return b, nil
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
	row := lo >> (b.rowShift & 63) % (1 << 16) * uint64(b.partitionOf(lo).rows) >> 16
	return b.inRow(lo, row)
}

// next is the place after this one in its partition, which wraps around.
func (b *buckets) next(place uint64) uint64 {
	place++
	if place%rowBuckets != 0 {
		return place
	}
	place -= rowBuckets // back to the start of the row
	row := place>>(b.rowShift&63) + 1
	if row == uint64(b.partitionOf(place).rows) {
		row = 0
	}
	return b.inRow(place, row)
}

// inRow is a place, or the low bits of an ID, moved to a row.
func (b *buckets) inRow(place, row uint64) uint64 {
	return place&(1<<(b.rowShift&63)-1) | row<<(b.rowShift&63)
}

// distance is how many steps of next lead from one place to another of its partition.
func (b *buckets) distance(from, to uint64) uint64 {
	d := b.indexOf(to) - b.indexOf(from)
	if int64(d) < 0 {
		d += uint64(b.partitionOf(from).buckets())
	}
	return d
}

// indexOf numbers the places of one partition in the order of next.
func (b *buckets) indexOf(place uint64) uint64 {
	return place>>(b.rowShift&63)<<rowBits | place%rowBuckets
}

// entriesMax is the most entries for a partition's buckets: three quarters.
func entriesMax(buckets int) int { return buckets / 4 * 3 }

func (b *buckets) residentBytes() int64 {
	const partitionBytes = 4
	return int64(b.count+oldMax)*bucketBytes + int64(len(b.partitions))*partitionBytes
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
	full := buckets{count: partitions * rowsFor(worst) * rowBuckets, partitions: make([]partition, partitions)}
	return full.residentBytes()
}

// reserve gives every partition the buckets that its share of so many entries
// needs.
func (b *buckets) reserve(entries int) {
	share := (entries + len(b.partitions) - 1) / len(b.partitions)
	rows := min(rowsFor(float64(share)), rowsMax)
	for i := range b.partitions {
		b.partitions[i].rows = uint16(rows)
	}
	b.count = len(b.partitions) * rows * rowBuckets
}

// rowsFor is the fewest rows that hold so many entries.
func rowsFor(entries float64) int {
	rows := 1
	for float64(entriesMax(rows*rowBuckets)) < entries {
		rows = moreRows(rows)
	}
	return rows
}

// moreRows is what a partition of so many rows grows to: half or a third more.
func moreRows(rows int) int {
	switch {
	case rows == 1:
		return 2
	case rows&(rows-1) == 0:
		return rows / 2 * 3
	}
	return rows / 3 * 4
}

// grow gives the partition of an ID with this Lo more rows. records tell the
// entries' IDs.
func (b *buckets) grow(lo uint64, records []Record) {
	p := b.partitionOf(lo)
	count := p.buckets()
	old := b.old[:count]
	for row := range uint64(p.rows) {
		start := b.inRow(lo, row) &^ (rowBuckets - 1)
		from := b.all[start : start+rowBuckets]
		copy(old[row*rowBuckets:], from)
		clear(from)
	}
	p.rows = uint16(moreRows(int(p.rows)))
	b.count += p.buckets() - count
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
