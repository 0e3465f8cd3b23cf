package table

// groupSize is how many independent cache misses are asked for at once: enough
// to fill the CPU's queue of outstanding loads, few enough for the results to
// stay on the stack and in the first-level cache.
const groupSize = 64

// Find returns the record's number of a block, 0 if it is not in the table.
func (t *Table) Find(id ID) Ref { return t.findFrom(t.buckets.home(id.Lo), id) }

// findFrom searches from a place on. The ID must not lie before it.
func (t *Table) findFrom(place uint64, id ID) Ref {
	b, tag := &t.buckets, tagOf(id)
	for ; b.all[place] != 0; place = b.next(place) {
		if bucket := b.all[place]; tagIn(bucket) == tag && t.records[refOf(bucket)].ID == id {
			return refOf(bucket)
		}
	}
	return 0
}

// FindBatch answers Find for every id in refs, which must be as long as ids.
// It is several times faster than single calls on a table larger than the
// caches, because it waits for the memory of many blocks at the same time.
func (t *Table) FindBatch(ids []ID, refs []Ref) {
	if len(ids) != len(refs) {
		panic("table: FindBatch with ids and refs of unequal length")
	}
	for len(ids) > 0 {
		n := min(groupSize, len(ids))
		t.findGroup(ids[:n], refs[:n])
		ids, refs = ids[n:], refs[n:]
	}
}

// findGroup works in three passes of independent loads: the home buckets, then
// the candidates by tag, then the records that confirm them.
func (t *Table) findGroup(ids []ID, refs []Ref) {
	b := &t.buckets
	var first [groupSize]uint64  // what the home bucket holds
	var places [groupSize]uint64 // where the search stands
	for i := range ids {
		places[i] = b.home(ids[i].Lo)
		first[i] = b.all[places[i]]
	}
	for i := range ids {
		tag, bucket, place := tagOf(ids[i]), first[i], places[i]
		for bucket != 0 && tagIn(bucket) != tag {
			place = b.next(place)
			bucket = b.all[place]
		}
		refs[i], places[i] = refOf(bucket), place
	}
	for i := range ids {
		if refs[i] != 0 && t.records[refs[i]].ID != ids[i] { // another ID of this tag
			refs[i] = t.findFrom(places[i], ids[i])
		}
	}
}
