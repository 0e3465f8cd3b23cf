package engine

import (
	"errors"
	"slices"

	"github.com/spillway-kv/spillway/engine/device"
)

// A segment goes in three steps. It is leaving at once: it takes no new block and
// no new lease, and its namespace counts without it. Then its blocks go, a piece in
// each hold of the lock; they are served until their turn comes. Then it is
// detached, and somebody unlinks the file.

// giveUpLocked empties g and detaches it. Others have their turns meanwhile.
func (s *Store) giveUpLocked(g *segment) {
	s.leaveLocked(g)
	s.emptyLocked(g)
}

// leaveLocked makes g a leaving segment.
func (s *Store) leaveLocked(g *segment) {
	if g.leaving {
		return
	}
	g.leaving = true
	ns := s.namespaces[g.header.namespace-1]
	ns.part(g)
	ns.leaving = append(ns.leaving, g)
}

// emptyLocked empties a leaving segment and detaches it, together with whoever else
// is at it, with a turn for others after each piece.
func (s *Store) emptyLocked(g *segment) {
	for more := true; more; {
		more = s.emptyPieceLocked(g)
		s.turnLocked()
	}
}

// awaitLeavingLocked returns when no segment of the namespace is leaving, whoever
// began it.
func (ns *Namespace) awaitLeavingLocked() {
	for len(ns.leaving) > 0 {
		ns.s.emptyLocked(ns.leaving[0])
	}
}

// emptyPieceLocked takes the blocks of the next slots out of a leaving segment, and
// detaches it when there are no more.
func (s *Store) emptyPieceLocked(g *segment) (more bool) {
	if s.segments[g.header.number] != g {
		return false // somebody else was faster
	}
	ns := s.namespaces[g.header.namespace-1]
	for end := min(g.emptied+uint32(s.turns.holdMax), g.header.slots); g.emptied < end; g.emptied++ {
		if ref := g.owner[g.emptied]; isBlock(ref) {
			ns.evictLocked(ref)
		}
	}
	if g.emptied < g.header.slots {
		return true
	}
	ns.appendFreesLocked()
	s.detachLocked(g)
	return false
}

// detachLocked takes an empty segment out of the store and leaves the file to
// unlinkRemovals. Transfers in flight end first: closing the file waits for them.
func (s *Store) detachLocked(g *segment) {
	ns := s.namespaces[g.header.namespace-1]
	ns.leaving = slices.DeleteFunc(ns.leaving, func(other *segment) bool { return other == g })
	delete(s.segments, g.header.number)
	if _, err := s.appendLocked(appendSegmentGone(nil, g.header.number), false); err != nil {
		s.log.Debug("segment record was not logged", "segment", g.header.number, "cause", err)
	}
	s.removals = append(s.removals, g)
}

// unlinkRemovals unlinks detached segments and gives their room back. When it
// returns without an error, those that were detached before are gone, whoever
// unlinked them. A segment whose file cannot be removed keeps its cost and is
// tried again.
func (s *Store) unlinkRemovals() error {
	s.keep.unlinking <- struct{}{}
	defer func() { <-s.keep.unlinking }()
	s.mu.Lock()
	gone := s.removals
	s.removals = nil
	s.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	removed := 0
	var errs []error
	for _, g := range gone {
		err := errors.Join(g.closeOnce(), s.dev.Remove(segmentName(g.header.number)))
		s.mu.Lock()
		if err == nil {
			s.costBytes -= segmentCostBytes(g.header.slotBytes, g.header.slots)
			removed++
		} else {
			s.removals = append(s.removals, g)
			errs = append(errs, err)
		}
		s.mu.Unlock()
	}
	if removed > 0 { // else a waiting put would ask again at once, round and round
		s.mu.Lock()
		s.wakeLocked()
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// closeOnce closes the file at the first call.
func (g *segment) closeOnce() error {
	if g.file == nil {
		return nil
	}
	f := g.file
	g.file = nil
	if err := f.Close(); err != nil && !errors.Is(err, device.ErrClosed) {
		return err
	}
	return nil
}
