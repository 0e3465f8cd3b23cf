package evict

import "fmt"

// lrus makes the LRUs of a store.
type lrus struct{ links }

// NewLRU makes a factory of LRUs for handles 0..max, so that records numbered
// from 1 fit as they are. It takes 8 bytes a handle outside the Go heap, however
// many LRUs there are; they become resident as handles are used.
//
// An LRU evicts the block touched longest ago among those of the lowest
// importance held. It tells importances 0..3 apart; what is above counts as 3.
// Age and importance are those of the latest Admit or Touch. With the caller's
// rule of applying chains tail first, a block is always older than its parent
// of the same importance, so chains shrink from their leaves.
//
// Every method takes constant time and allocates nothing. Methods panic if the
// caller admits a block that any LRU of the factory holds, or touches, evicts or
// forgets one that none holds.
func NewLRU(max int) (Factory, error) {
	l, err := newLinks(max, levels)
	if err != nil {
		return nil, err
	}
	return &lrus{l}, nil
}

// New makes an LRU that holds nothing.
func (f *lrus) New() Policy { return &lru{lists: newLists(f.links)} }

// Learned is nothing.
func (f *lrus) Learned() []byte { return nil }

// Learn learns nothing.
func (f *lrus) Learn([]byte) error { return nil }

// Free gives the lists' memory back.
func (f *lrus) Free() { f.links.free() }

// lru keeps one list per importance.
type lru struct {
	lists
	held int
}

// Name returns "lru".
func (l *lru) Name() string { return LRU }

// Len is the number of blocks held.
func (l *lru) Len() int { return l.held }

// Admit adds a block as the youngest of its importance.
func (l *lru) Admit(h Handle, a Access) {
	if l.neighbour(h) != 0 {
		panic(fmt.Sprintf("evict: block %d admitted twice", h))
	}
	l.push(levelOf(a), h)
	l.held++
}

// Touch makes a block the youngest of the importance given now.
func (l *lru) Touch(h Handle, a Access) {
	l.unlink(h)
	l.push(levelOf(a), h)
}

// Victim names the oldest block of the lowest importance held.
func (l *lru) Victim() (Handle, bool) {
	for level := range levels {
		if h, ok := l.last(level); ok {
			return h, true
		}
	}
	return 0, false
}

// Evicted removes a block.
func (l *lru) Evicted(h Handle, _ [16]byte) { l.Forget(h) }

// Forget removes a block.
func (l *lru) Forget(h Handle) {
	l.remove(h)
	l.held--
}

// Past knows nothing: an LRU keeps no times.
func (l *lru) Past(Handle) Past { return Past{} }

// levelOf is the importance as policies tell it apart.
func levelOf(a Access) int { return int(min(a.Importance, levels-1)) }
