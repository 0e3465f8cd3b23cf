package table

import "fmt"

// Reserve makes room for that many blocks at once and has the system commit the
// memory for it, both of which Insert does otherwise as it goes. It panics if the
// table has ever held a block.
func (t *Table) Reserve(blocks int) {
	if t.used > 0 {
		panic("table: Reserve in a table that was used")
	}
	blocks = min(blocks, t.maxBlocks)
	t.reserved = max(t.reserved, blocks)
	t.buckets.reserve(blocks)
	for ref := 0; ref <= blocks; ref += pageBytes / recordBytes {
		t.records[ref].Depth = 0 // a write, where a read would be given a page of zeros
	}
	for i := 0; i < t.buckets.count; i += pageBytes / bucketBytes {
		t.buckets.all[i] = 0
	}
}

// Insert adds a block and returns its record's number; the record is zero but
// for its ID. The only error is ErrFull; it leaves the table unchanged. Insert
// panics if the ID is present.
func (t *Table) Insert(id ID) (Ref, error) {
	if t.live == t.maxBlocks {
		return 0, ErrFull
	}
	b := &t.buckets
	p := b.partitionOf(id.Lo)
	if count := p.buckets(); int(p.entries) == entriesMax(count) {
		if count == bucketsMax {
			return 0, ErrFull
		}
		b.grow(id.Lo, t.records)
	}
	tag, place := tagOf(id), b.home(id.Lo)
	for ; b.all[place] != 0; place = b.next(place) {
		if bucket := b.all[place]; tagIn(bucket) == tag && t.records[refOf(bucket)].ID == id {
			panic(fmt.Sprintf("table: ID %016x%016x inserted twice", id.Hi, id.Lo))
		}
	}
	ref := t.takeRecord()
	t.records[ref] = Record{ID: id, flags: flagLive}
	b.all[place] = pack(tag, ref)
	p.entries++
	t.live++
	return ref, nil
}

// Remove takes a block out of the table. Its record is zeroed and its number
// may be given out again. It panics if ref names no block.
func (t *Table) Remove(ref Ref) {
	r := t.At(ref)
	want := pack(tagOf(r.ID), ref)
	b := &t.buckets
	place := b.home(r.ID.Lo)
	for ; b.all[place] != want; place = b.next(place) {
		if b.all[place] == 0 {
			panic(fmt.Sprintf("table: the ID of record %d was changed", ref))
		}
	}
	t.closeGap(place)
	b.partitionOf(r.ID.Lo).entries--
	*r = freeRecord(t.free)
	t.free = uint32(ref)
	t.live--
}

// closeGap empties a bucket and moves back every follower that would no longer
// be found across the hole: one whose home lies at or before the hole. Places
// are compared by their distance to the follower, so that a cluster may wrap
// around the end of the partition.
func (t *Table) closeGap(hole uint64) {
	b := &t.buckets
	for place := b.next(hole); b.all[place] != 0; place = b.next(place) {
		home := b.home(t.records[refOf(b.all[place])].ID.Lo)
		if b.distance(home, place) >= b.distance(hole, place) {
			b.all[hole] = b.all[place]
			hole = place
		}
	}
	b.all[hole] = 0
}

func (t *Table) takeRecord() Ref {
	if t.free != 0 {
		ref := Ref(t.free)
		t.free = t.records[ref].nextFree()
		return ref
	}
	t.used++
	return Ref(t.used)
}
