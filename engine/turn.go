package engine

import "runtime"

// holdMax bounds the blocks, slots or promises that one hold of Store.mu walks over
// where their number is not a caller's: some 100 us. Longer work is done in pieces,
// between which anything else may happen.
const holdMax = 1024

// turnLocked lets others have the lock amid long work.
func (s *Store) turnLocked() {
	onTurn := s.onTurn
	s.mu.Unlock()
	if onTurn != nil {
		onTurn()
	}
	runtime.Gosched()
	s.mu.Lock()
}
