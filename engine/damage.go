package engine

import (
	"fmt"

	"github.com/spillway-kv/spillway/engine/evict"
)

// mismatchesMax bounds the memory of slots that failed once.
const mismatchesMax = 4096

// mismatch judges bytes that failed their checksum in private memory. If the
// block is still the one that was read, its entry goes: a second mismatch of
// the slot with another put quarantines the slot. Puts from shared memory do not
// count, or a client could use up slots by writing while it puts.
func (s *Store) mismatch(r *readOp, cause error) {
	s.mu.Lock()
	rec := s.table.Peek(r.ref)
	switch {
	case rec == nil || rec.State() != statePresent || rec.Position() != r.position:
		s.counters.StaleReads++
	case s.suspectLocked(r.position):
		s.counters.LostBlocks++
		cause = fmt.Errorf("block at %v: %w", r.place, ErrLost)
		s.forgetBlockLocked(r)
	default:
		s.counters.TornBlocks++
		s.log.Warn("a block failed its checksum; it is a miss from now on", "place", r.place, "position", r.position)
		shared := rec.Shared()
		s.forgetBlockLocked(r)
		if shared {
			break // whoever shared the memory may have changed it under the put
		}
		if before, ok := s.mismatches[r.place]; ok && before != r.position {
			s.quarantineLocked(r.place)
		} else if len(s.mismatches) < mismatchesMax {
			s.mismatches[r.place] = r.position
		}
	}
	s.mu.Unlock()
	r.finish(Miss, cause, nil)
}

// readError judges a read that the device failed: one error costs one slot.
func (s *Store) readError(r *readOp, cause error) {
	s.mu.Lock()
	s.counters.ReadErrors++
	if rec := s.table.Peek(r.ref); rec != nil && rec.State() == statePresent && rec.Position() == r.position {
		s.forgetBlockLocked(r)
		s.quarantineLocked(r.place)
	}
	s.log.Warn("a block could not be read; its slot is not used again", "place", r.place, "cause", cause)
	s.mu.Unlock()
	r.finish(Miss, fmt.Errorf("read %v: %w", r.place, cause), nil)
}

// suspectLocked reports whether a put at this position was unsynced when an
// earlier run ended uncleanly.
func (s *Store) suspectLocked(position uint64) bool {
	for _, r := range s.suspects {
		if position > r.from && position <= r.to {
			return true
		}
	}
	return false
}

// forgetBlockLocked takes a damaged block out.
func (s *Store) forgetBlockLocked(r *readOp) {
	ns := r.batch.ns
	ns.policy.Forget(evict.Handle(r.ref))
	ns.dropBlockLocked(r.ref)
}

// quarantineLocked keeps a slot from ever being used again, durably.
func (s *Store) quarantineLocked(p Place) {
	g := s.segments[p.Segment()]
	if g == nil || g.owner[p.Slot()] == slotQuarantined {
		return
	}
	g.quarantine(p.Slot())
	s.counters.QuarantinedSlots++
	delete(s.mismatches, p)
	if _, err := s.appendLocked(appendQuarantine(nil, []Place{p}), false); err != nil {
		s.log.Warn("a quarantine was not logged and ends with this run", "place", p, "cause", err)
	}
}
