package table

import (
	"fmt"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// Insert adds a block and returns its record's number; the record is zero but
// for its ID. ErrFull means that maxBlocks are in use; any other error, that
// the system refused memory for a larger bucket array. Either leaves the table
// unchanged. Insert panics if the ID is present.
func (t *Table) Insert(id ID) (Ref, error) {
	if t.live == t.maxBlocks {
		return 0, ErrFull
	}
	if t.live == t.growAt {
		if err := t.resize(2 * len(t.buckets)); err != nil {
			return 0, err
		}
	}
	buckets, mask := t.buckets, uint64(len(t.buckets)-1)
	tag := tagOf(id)
	i := homeOf(id.Lo, mask)
	for ; buckets[i] != 0; i = (i + 1) & mask {
		if uint32(buckets[i]>>32) == tag && t.records[refOf(buckets[i])].ID == id {
			panic(fmt.Sprintf("table: ID %016x%016x inserted twice", id.Hi, id.Lo))
		}
	}
	ref := t.takeRecord()
	t.records[ref] = Record{ID: id, link: linkLive}
	buckets[i] = pack(tag, ref)
	t.live++
	return ref, nil
}

// Remove takes a block out of the table. Its record is zeroed and its number
// may be given out again. It panics if ref names no block.
func (t *Table) Remove(ref Ref) {
	r := t.At(ref)
	want, mask := pack(tagOf(r.ID), ref), uint64(len(t.buckets)-1)
	i := homeOf(r.ID.Lo, mask)
	for t.buckets[i] != want {
		if t.buckets[i] == 0 {
			panic(fmt.Sprintf("table: the ID of record %d was changed", ref))
		}
		i = (i + 1) & mask
	}
	t.closeGap(i)
	*r = Record{link: t.free}
	t.free = uint32(ref)
	t.live--
}

// closeGap empties bucket gap and moves back every follower that would no
// longer be found across the hole: one whose home lies at or before the hole.
// Positions are compared as distances from the home, so that a cluster may wrap
// around the end of the array.
func (t *Table) closeGap(gap uint64) {
	buckets, mask := t.buckets, uint64(len(t.buckets)-1)
	for i := (gap + 1) & mask; buckets[i] != 0; i = (i + 1) & mask {
		home := homeOf(t.records[refOf(buckets[i])].ID.Lo, mask)
		if (i-home)&mask >= (i-gap)&mask {
			buckets[gap] = buckets[i]
			gap = i
		}
	}
	buckets[gap] = 0
}

func (t *Table) takeRecord() Ref {
	if t.free != 0 {
		ref := Ref(t.free)
		t.free = t.records[ref].link
		return ref
	}
	t.used++
	return Ref(t.used)
}

// resize moves all entries to a new bucket array. Entries come in the order of
// the old array, so their homes in the new one ascend in two streams; only the
// loads of the records are scattered, and a group of them overlaps.
func (t *Table) resize(count int) error {
	mem, err := offheap.Make[uint64](count)
	if err != nil {
		return fmt.Errorf("table: %d buckets: %w", count, err)
	}
	old, buckets, mask := t.buckets, mem.Slice(), uint64(count-1)
	for len(old) > 0 {
		group := old[:min(groupSize, len(old))]
		old = old[len(group):]
		var homes [groupSize]uint64
		for i, b := range group { // an empty bucket loads the unused record 0
			homes[i] = homeOf(t.records[refOf(b)].ID.Lo, mask)
		}
		for i, b := range group {
			if b == 0 {
				continue
			}
			at := homes[i]
			for buckets[at] != 0 {
				at = (at + 1) & mask
			}
			buckets[at] = b
		}
	}
	if t.bucketMem != nil {
		t.bucketMem.Free()
	}
	t.bucketMem, t.buckets, t.growAt = mem, buckets, entriesMax(count)
	return nil
}
