package table

import "fmt"

// Insert adds a block and returns its record's number; the record is zero but
// for its ID. The only error is ErrFull; it leaves the table unchanged. Insert
// panics if the ID is present.
func (t *Table) Insert(id ID) (Ref, error) {
	if t.live == t.maxBlocks {
		return 0, ErrFull
	}
	part, i := t.buckets.home(id.Lo)
	p := &t.buckets.partitions[part]
	if count := int(p.mask) + 1; int(p.entries) == entriesMax(count) {
		if count == bucketsMax {
			return 0, ErrFull
		}
		t.buckets.grow(part, t.records)
		_, i = t.buckets.home(id.Lo)
	}
	tag, mask := tagOf(id), uint64(p.mask)
	at := t.buckets.at(part, i)
	for *at != 0 {
		if uint32(*at>>32) == tag && t.records[refOf(*at)].ID == id {
			panic(fmt.Sprintf("table: ID %016x%016x inserted twice", id.Hi, id.Lo))
		}
		i = (i + 1) & mask
		at = t.buckets.at(part, i)
	}
	ref := t.takeRecord()
	t.records[ref] = Record{ID: id, link: linkLive}
	*at = pack(tag, ref)
	p.entries++
	t.live++
	return ref, nil
}

// Remove takes a block out of the table. Its record is zeroed and its number
// may be given out again. It panics if ref names no block.
func (t *Table) Remove(ref Ref) {
	r := t.At(ref)
	want := pack(tagOf(r.ID), ref)
	part, i := t.buckets.home(r.ID.Lo)
	p := &t.buckets.partitions[part]
	for {
		bucket := *t.buckets.at(part, i)
		if bucket == want {
			break
		}
		if bucket == 0 {
			panic(fmt.Sprintf("table: the ID of record %d was changed", ref))
		}
		i = (i + 1) & uint64(p.mask)
	}
	t.closeGap(part, i)
	*r = Record{link: t.free}
	t.free = uint32(ref)
	p.entries--
	t.live--
}

// closeGap empties bucket gap and moves back every follower that would no
// longer be found across the hole: one whose home lies at or before the hole.
// Positions are compared as distances to the follower, so that a cluster may
// wrap around the end of the partition.
func (t *Table) closeGap(part, gap uint64) {
	mask := uint64(t.buckets.partitions[part].mask)
	hole := t.buckets.at(part, gap)
	for i := (gap + 1) & mask; ; i = (i + 1) & mask {
		at := t.buckets.at(part, i)
		if *at == 0 {
			break
		}
		_, home := t.buckets.home(t.records[refOf(*at)].ID.Lo)
		if (i-home)&mask >= (i-gap)&mask {
			*hole = *at
			hole, gap = at, i
		}
	}
	*hole = 0
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
