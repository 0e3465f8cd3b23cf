package pool

import (
	"fmt"
	"sync/atomic"
)

// eraseCounters count since the node's start.
type eraseCounters struct {
	deleted, dropped, taken, forgotten, missing atomic.Uint64
	raised, cleared, refused                    atomic.Uint64
	behind, floors, caughtUp, merges            atomic.Uint64
	overfull                                    atomic.Uint64
}

// EraseStat is what a node knows of erasures in its pool.
type EraseStat struct {
	Joined     bool   `json:"joined"`     // it has merged with all that it could reach, and answers peers
	Known      string `json:"known"`      // a digest of it, 16 hex digits: nodes that know the same have the same
	Tombstones int    `json:"tombstones"` // deletions and drops, of all nodes, that it can name
	Origins    int    `json:"origins"`    // nodes that have ever erased something
	Floors     int    `json:"floors"`     // namespaces that were ever dropped
	Damages    uint32 `json:"damages"`    // times, ever, that what it knew was damaged, and was learned anew
	Failed     string `json:"failed"`     // why nothing can be erased any more; empty: it can
	Deleted    uint64 `json:"deleted"`    // blocks deleted through this node
	Dropped    uint64 `json:"dropped"`    // namespaces dropped through it
	Taken      uint64 `json:"taken"`      // erasures learned from others
	Forgotten  uint64 `json:"forgotten"`  // erasures too old to be named any more
	Missing    uint64 `json:"missing"`    // members that did not confirm an erasure in time
	Raised     uint64 `json:"raised"`     // namespaces erased here since others had dropped them
	Cleared    uint64 `json:"cleared"`    // namespaces given up here since deletions are not known by name
	Refused    uint64 `json:"refused"`    // copies that came and may have been erased on their way
	Behind     uint64 `json:"behind"`     // calls refused as this node knew less than the caller
	Outdated   uint64 `json:"outdated"`   // calls refused as they were about a dropped incarnation
	CaughtUp   uint64 `json:"caught_up"`  // calls of this node that were refused so, and merged
	Merges     uint64 `json:"merges"`     // times that it and another knew the same
	Overfull   uint64 `json:"overfull"`   // times that it was told of more than it can remember, and gave up all its blocks
}

func (e *eraser) stat() EraseStat {
	c := &e.counts
	s := EraseStat{Joined: e.open.Load(), Damages: e.damages,
		Deleted: c.deleted.Load(), Dropped: c.dropped.Load(), Taken: c.taken.Load(), Forgotten: c.forgotten.Load(),
		Missing: c.missing.Load(), Raised: c.raised.Load(), Cleared: c.cleared.Load(), Refused: c.refused.Load(),
		Behind: c.behind.Load(), Outdated: c.floors.Load(), CaughtUp: c.caughtUp.Load(), Merges: c.merges.Load(), Overfull: c.overfull.Load()}
	if cause := e.failed.Load(); cause != nil {
		s.Failed = (*cause).Error()
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	s.Known = fmt.Sprintf("%016x", e.known.sum())
	s.Tombstones, s.Origins = e.known.named, len(e.known.origins)
	for _, space := range e.known.spaces {
		if space.floor > 1 {
			s.Floors++
		}
	}
	return s
}
