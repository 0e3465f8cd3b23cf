package table

// groupSize is how many independent cache misses are asked for at once: enough
// to fill the CPU's queue of outstanding loads, few enough for the results to
// stay on the stack and in the first-level cache.
const groupSize = 64

// Find returns the record's number of a block, 0 if it is not in the table.
func (t *Table) Find(id ID) Ref {
	part, i := t.buckets.home(id.Lo)
	return t.findFrom(part, i, id)
}

// findFrom searches the cluster of a partition from bucket i on.
func (t *Table) findFrom(part, i uint64, id ID) Ref {
	tag, mask := tagOf(id), uint64(t.buckets.partitions[part].mask)
	for ; ; i = (i + 1) & mask {
		bucket := *t.buckets.at(part, i)
		if bucket == 0 {
			return 0
		}
		if uint32(bucket>>32) == tag && t.records[refOf(bucket)].ID == id {
			return refOf(bucket)
		}
	}
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
	var first [groupSize]uint64 // what the home bucket holds
	var place [groupSize]uint64 // where the search stands
	for i := range ids {
		part, home := t.buckets.home(ids[i].Lo)
		first[i], place[i] = *t.buckets.at(part, home), home
	}
	for i := range ids {
		tag, bucket := tagOf(ids[i]), first[i]
		if bucket != 0 && uint32(bucket>>32) != tag {
			part := ids[i].Lo & uint64(len(t.buckets.partitions)-1)
			mask := uint64(t.buckets.partitions[part].mask)
			for bucket != 0 && uint32(bucket>>32) != tag {
				place[i] = (place[i] + 1) & mask
				bucket = *t.buckets.at(part, place[i])
			}
		}
		refs[i] = refOf(bucket)
	}
	for i := range ids {
		if refs[i] != 0 && t.records[refs[i]].ID != ids[i] { // another ID of this tag
			part := ids[i].Lo & uint64(len(t.buckets.partitions)-1)
			refs[i] = t.findFrom(part, place[i], ids[i])
		}
	}
}
