package table

// Peek is At for a Ref that may be stale: nil if no block has it now. The
// caller still has to check that the record is the one it remembers.
func (t *Table) Peek(ref Ref) *Record {
	if ref == 0 || int(ref) > t.used || t.records[ref].link != linkLive {
		return nil
	}
	return &t.records[ref]
}

// Max is the most blocks the table can hold.
func (t *Table) Max() int { return t.maxBlocks }
