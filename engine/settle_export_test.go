package engine

import "time"

// Settle logs every removal that waits to be logged, as far as the log has room, and
// waits until the index has everything that is in the log.
func (s *Store) Settle() error {
	s.mu.Lock()
	for _, ns := range s.namespaces {
		_ = ns.payDropLocked()
		for ns.appendFreesLocked() {
		}
	}
	last := uint64(s.wal.Last())
	s.mu.Unlock()
	if err := s.syncLog(last); err != nil {
		return err
	}
	for s.apply.reached.Load() < last {
		time.Sleep(time.Millisecond)
	}
	return nil
}
