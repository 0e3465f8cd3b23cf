// Package table is the index of one store in memory: an off-heap hash table
// from a block's ID to a fixed-size record.
//
// Records lie densely in one array, numbered from 1, and never move: a *Record
// stays valid until its block is removed. Beside them lies an open-addressing
// array of 8-byte buckets with linear probing: the upper half of a bucket is a
// tag (32 bits of the ID), the lower half the record's number, 0 in an empty
// bucket. A removal shifts the followers back, so that no tombstones pile up.
//
// The bucket array is cut into partitions, each a small hash table that grows by half
// or a third, on its own, when it is three quarters full. One array that grows as a whole
// would stop the store for a quarter of a second at 4 million blocks; a
// partition takes well under a millisecond.
//
// IDs are uniformly random already (a truncated SHA-256), so the table does not
// hash: the low bits of ID.Lo choose partition and bucket, the high half of ID.Hi
// is the tag.
//
// A Table has no lock of its own: the store's lock guards it. Find, FindBatch,
// At, Len, Each and ResidentBytes only read and may run in parallel with each
// other, but with none of the other methods.
package table

import (
	"errors"
	"fmt"
	"math"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// ID names a block: 128 uniformly random bits.
type ID struct{ Hi, Lo uint64 }

// Ref is the number of a record: 1..maxBlocks, 0 means none. Refs are reused
// after Remove, the last one removed first.
type Ref uint32

const (
	pageBytes = 4096

	// MaxBlocksMax is the largest maxBlocks.
	MaxBlocksMax = math.MaxUint32 - 1
)

// ErrFull is returned by Insert when maxBlocks records are in use. (A partition
// can also be full, at twice its share of maxBlocks or more. Random IDs do not
// get there.)
var ErrFull = errors.New("table: full")

// Table is the index of one store.
type Table struct {
	recordMem *offheap.Array[Record]
	records   []Record // records[0] is never used
	buckets   buckets

	maxBlocks int
	used      int    // records ever used: 1..used
	reserved  int    // records whose memory Reserve has committed
	live      int    // records in use
	free      uint32 // head of the free list, 0 = empty
}

// New reserves a table for at most maxBlocks blocks (1..MaxBlocksMax). Memory
// becomes resident as blocks arrive, or with Reserve.
func New(maxBlocks int) (*Table, error) {
	if maxBlocks < 1 || maxBlocks > MaxBlocksMax {
		return nil, fmt.Errorf("table: %d blocks, want 1..%d", maxBlocks, uint64(MaxBlocksMax))
	}
	recordMem, err := offheap.Make[Record](maxBlocks + 1)
	if err != nil {
		return nil, fmt.Errorf("table: records: %w", err)
	}
	buckets, err := newBuckets(partitionsFor(maxBlocks))
	if err != nil {
		recordMem.Free()
		return nil, fmt.Errorf("table: buckets: %w", err)
	}
	return &Table{
		recordMem: recordMem,
		records:   recordMem.Slice(),
		buckets:   buckets,
		maxBlocks: maxBlocks,
	}, nil
}

// MemoryBytes is the most that a table for maxBlocks blocks with random IDs can
// have resident.
func MemoryBytes(maxBlocks int) int64 {
	return (int64(maxBlocks)+1)*recordBytes + bucketsBytesMax(maxBlocks)
}

// ResidentBytes is how much memory the table has touched, computed from its
// arrays and not asked of the system, which counts in whole pages. Records that
// were used once stay resident after Remove.
func (t *Table) ResidentBytes() int64 {
	return (int64(max(t.used, t.reserved))+1)*recordBytes + t.buckets.residentBytes()
}

// Len is the number of blocks in the table.
func (t *Table) Len() int { return t.live }

// At returns the record of a block in the table. It panics if ref names none.
// The pointer stays valid until the block is removed or the table freed.
func (t *Table) At(ref Ref) *Record {
	if ref == 0 || int(ref) > t.used || !t.records[ref].live() {
		panic(fmt.Sprintf("table: record %d is not in use", ref))
	}
	return &t.records[ref]
}

// Each calls f for every block, in the order of their Refs, until f returns
// false. f may remove any block and insert new ones; whether a block inserted
// meanwhile is visited is open, one removed before its turn is not.
func (t *Table) Each(f func(Ref, *Record) bool) {
	for ref := 1; ref <= t.used; ref++ {
		if r := &t.records[ref]; r.live() && !f(Ref(ref), r) {
			return
		}
	}
}

// Free gives all memory back. The table and every *Record of it are dead.
func (t *Table) Free() {
	t.recordMem.Free()
	t.buckets.mem.Free()
	*t = Table{recordMem: t.recordMem, buckets: buckets{mem: t.buckets.mem}}
}

func tagOf(id ID) uint32 { return uint32(id.Hi >> 32) }

func pack(tag uint32, ref Ref) uint64 { return uint64(tag)<<32 | uint64(ref) }

func tagIn(bucket uint64) uint32 { return uint32(bucket >> 32) }

func refOf(bucket uint64) Ref { return Ref(uint32(bucket)) }
