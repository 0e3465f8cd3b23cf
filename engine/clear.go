package engine

// Clear erases every block of the namespace, as a drop does, but the incarnation stays
// and puts go on: it is for a store that can no longer tell which of its blocks were
// deleted. When it returns without an error, no block put before the call is ever
// answered again, not even after a power cut. Puts under way may come to nothing.
func (ns *Namespace) Clear() error {
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.keep.config.Lock()
	defer s.keep.config.Unlock()
	s.mu.Lock()
	for len(ns.segments) > 0 {
		s.leaveLocked(ns.segments[len(ns.segments)-1])
	}
	ns.awaitLeavingLocked()
	s.mu.Unlock()
	// Without its segment's file no record of a block means anything, whether the log
	// says durably that the block went or not.
	if err := s.unlinkRemovals(); err != nil {
		return err
	}
	return s.dev.SyncDir()
}
