package engine

import (
	"errors"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
)

// emptySegmentLocked evicts every block of g, logs that, and detaches it.
func (s *Store) emptySegmentLocked(g *segment) {
	ns := s.namespaces[g.header.namespace-1]
	for _, ref := range g.owner {
		if isBlock(ref) && s.table.At(ref).State == statePresent {
			ns.policy.Evicted(evict.Handle(ref))
			ns.dropBlockLocked(ref)
			s.counters.Evicted++
		}
	}
	ns.appendFreesLocked()
	s.detachSegmentLocked(g)
}

// detachSegmentLocked takes g out of its namespace, forgetting what is left in
// it, and leaves the file to unlinkRemovals. Transfers in flight end first:
// closing the file waits for them.
func (s *Store) detachSegmentLocked(g *segment) {
	ns := s.namespaces[g.header.namespace-1]
	for _, ref := range g.owner {
		if isBlock(ref) {
			ns.policy.Forget(evict.Handle(ref))
			rec := s.table.At(ref)
			if rec.Leases > 0 {
				ns.leased--
			}
			if rec.Pins > 0 {
				s.zombiePins[Place(rec.Place)] += int(rec.Pins)
			}
			ns.blocks--
			s.table.Remove(ref)
		}
	}
	g.leaving = true
	delete(s.segments, g.header.number)
	ns.part(g)
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
