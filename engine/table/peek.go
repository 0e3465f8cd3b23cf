package table

// Peek is At for a Ref that may be stale: nil if no block has it now. The
// caller still has to check that the record is the one it remembers.
func (t *Table) Peek(ref Ref) *Record {
	if ref == 0 || int(ref) > t.used || !t.records[ref].live() {
		return nil
	}
	return &t.records[ref]
}

// Used is the highest Ref that any block ever had.
func (t *Table) Used() int { return t.used }

// Max is the most blocks the table can hold.
func (t *Table) Max() int { return t.maxBlocks }
