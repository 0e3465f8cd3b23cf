package engine

import "runtime"

// holdMax bounds the blocks, slots or promises that one hold of Store.mu walks over
// where their number is not a caller's: some 100 us. Longer work is done in pieces,
// between which anything else may happen.
const holdMax = 1024

// turns is how long work gives the lock away. Guarded by Store.mu.
type turns struct {
	holdMax int    // the constant, but in tests
	taken   func() // nil but in tests; called at the end of a piece
}

// turnLocked lets others have the lock amid long work.
func (s *Store) turnLocked() {
	if s.turns.taken != nil {
		s.turns.taken()
	}
	s.mu.Unlock()
	runtime.Gosched()
	s.mu.Lock()
}
