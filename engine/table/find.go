package table

// groupSize is how many independent cache misses are asked for at once: enough
// to fill the CPU's queue of outstanding loads, few enough for the results to
// stay on the stack and in the first-level cache.
const groupSize = 64

// Find returns the record's number of a block, 0 if it is not in the table.
func (t *Table) Find(id ID) Ref {
	return t.findFrom(homeOf(id.Lo, uint64(len(t.buckets)-1)), id)
}

// findFrom searches the cluster from bucket i on.
func (t *Table) findFrom(i uint64, id ID) Ref {
	buckets, mask := t.buckets, uint64(len(t.buckets)-1)
	tag := tagOf(id)
	for ; buckets[i] != 0; i = (i + 1) & mask {
		if b := buckets[i]; uint32(b>>32) == tag && t.records[refOf(b)].ID == id {
			return refOf(b)
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
	buckets, mask := t.buckets, uint64(len(t.buckets)-1)
	var first [groupSize]uint64 // what the home bucket holds
	var next [groupSize]uint64  // where to go on if the candidate is another ID
	for i := range ids {
		first[i] = buckets[homeOf(ids[i].Lo, mask)]
	}
	for i := range ids {
		tag, at, b := tagOf(ids[i]), homeOf(ids[i].Lo, mask), first[i]
		for b != 0 && uint32(b>>32) != tag {
			at = (at + 1) & mask
			b = buckets[at]
		}
		refs[i], next[i] = refOf(b), (at+1)&mask
	}
	for i := range ids {
		if refs[i] != 0 && t.records[refs[i]].ID != ids[i] {
			refs[i] = t.findFrom(next[i], ids[i])
		}
	}
}
