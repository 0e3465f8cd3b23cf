package pool

// PutStat is what came of puts through the pool.
type PutStat struct {
	Requests      uint64 `json:"requests"`       // of this node's clients, that had blocks which are not here
	Blocks        uint64 `json:"blocks"`         // in them
	Runs          uint64 `json:"runs"`           // that they were cut into
	Stored        uint64 `json:"stored"`         // blocks of which a node stored a copy, this one included
	Present       uint64 `json:"present"`        // blocks that a node had before
	Late          uint64 `json:"late"`           // blocks whose put was not done in time
	Dropped       uint64 `json:"dropped"`        // blocks refused, or failed
	Rehomed       uint64 `json:"rehomed"`        // times that a home could not be reached, and another was found
	Returned      uint64 `json:"returned"`       // blocks that came to be stored here since their homes could not be reached
	CopiesMissing uint64 `json:"copies_missing"` // blocks put with fewer copies than there should be
	Taken         uint64 `json:"taken"`          // blocks stored here that came from peers
	TakenWrong    uint64 `json:"taken_wrong"`    // blocks from peers whose bytes did not fit their checksum: dropped
	TakenErased   uint64 `json:"taken_erased"`   // blocks from peers that were erased meanwhile: dropped
	TakenBusy     uint64 `json:"taken_busy"`     // blocks from peers that no memory was left for: dropped
}

func (c *putCounters) stat() PutStat {
	return PutStat{Requests: c.requests.Load(), Blocks: c.blocks.Load(), Runs: c.runs.Load(), Stored: c.stored.Load(), Present: c.present.Load(),
		Late: c.late.Load(), Dropped: c.dropped.Load(), Rehomed: c.rehomed.Load(), Returned: c.returned.Load(), CopiesMissing: c.copiesMissing.Load(),
		Taken: c.taken.Load(), TakenWrong: c.takenWrong.Load(), TakenErased: c.takenErased.Load(), TakenBusy: c.takenBusy.Load()}
}

// stat fills in a peer's part.
func (q *putQueue) stat(st *PeerStat) {
	st.Stored, st.Present, st.WrittenBytes, st.TakenBlocks = q.stored.Load(), q.present.Load(), q.storedBytes.Load(), q.taken.Load()
	st.Refused += q.refused.Load()
	st.PutsWrong = q.wrong.Load()
	st.Described = q.described.Load()
	q.mu.Lock()
	defer q.mu.Unlock()
	st.PutQueueBytes = q.admitted
}
