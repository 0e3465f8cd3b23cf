package evict

import (
	"fmt"
	"math"

	"github.com/spillway-kv/spillway/engine/offheap"
)

const (
	// levels is how many importances an LRU tells apart; higher ones count as
	// the highest.
	levels = 4
	// The nodes of the lists: node 0 is none, nodes 1..levels are the ends of an
	// LRU's own lists, lowest importance first, and the rest are handles.
	firstEnd  = 1
	firstNode = firstEnd + levels
	// lruMax is the largest max: all nodes are numbered in 32 bits.
	lruMax = math.MaxUint32 - firstNode
)

// lrus makes the LRUs of a store. They share two off-heap arrays with the
// neighbours of each handle, since a handle is in one list at most.
type lrus struct {
	prevMem, nextMem *offheap.Array[uint32]
	links
}

// links are the neighbours of handles; 0 if it is in no list.
type links struct{ prev, next []uint32 }

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
	if max < 0 || max > lruMax {
		return nil, fmt.Errorf("evict: LRU of %d blocks, want 0..%d", max, uint64(lruMax))
	}
	prevMem, err := offheap.Make[uint32](max + 1)
	if err != nil {
		return nil, fmt.Errorf("evict: lists of %d blocks: %w", max, err)
	}
	nextMem, err := offheap.Make[uint32](max + 1)
	if err != nil {
		prevMem.Free()
		return nil, fmt.Errorf("evict: lists of %d blocks: %w", max, err)
	}
	return &lrus{prevMem, nextMem, links{prevMem.Slice(), nextMem.Slice()}}, nil
}

// New makes an LRU that holds nothing.
func (f *lrus) New() Policy {
	l := &lru{links: f.links}
	for end := uint32(firstEnd); end < firstNode; end++ {
		l.oldest[end-firstEnd], l.youngest[end-firstEnd] = end, end
	}
	return l
}

// Free gives the lists' memory back.
func (f *lrus) Free() {
	f.prevMem.Free()
	f.nextMem.Free()
	f.links = links{}
}

// lru keeps one circular doubly linked list per importance, from its end over the
// youngest to the oldest block and back.
type lru struct {
	links    // of the factory
	held     int
	oldest   [levels]uint32 // the node before an end
	youngest [levels]uint32 // the node behind it
}

// Name returns "lru".
func (l *lru) Name() string { return "lru" }

// Len is the number of blocks held.
func (l *lru) Len() int { return l.held }

// Admit adds a block as the youngest of its importance.
func (l *lru) Admit(h Handle, a Access) {
	if l.neighbour(h) != 0 {
		panic(fmt.Sprintf("evict: block %d admitted twice", h))
	}
	l.push(h, a.Importance)
	l.held++
}

// Touch makes a block the youngest of the importance given now.
func (l *lru) Touch(h Handle, a Access) {
	l.unlink(h)
	l.push(h, a.Importance)
}

// Victim names the oldest block of the lowest importance held.
func (l *lru) Victim() (Handle, bool) {
	for _, node := range l.oldest {
		if node >= firstNode {
			return Handle(node - firstNode), true
		}
	}
	return 0, false
}

// Evicted removes a block.
func (l *lru) Evicted(h Handle) { l.Forget(h) }

// Forget removes a block.
func (l *lru) Forget(h Handle) {
	l.unlink(h)
	l.prev[h], l.next[h] = 0, 0
	l.held--
}

// neighbour is the node behind a block, 0 if no list holds it.
func (l *lru) neighbour(h Handle) uint32 {
	if int(h) >= len(l.next) {
		panic(fmt.Sprintf("evict: block %d in an LRU of %d", h, len(l.next)-1))
	}
	return l.next[h]
}

// push links a block behind the end of its importance's list, the young side.
func (l *lru) push(h Handle, importance uint8) {
	level := min(importance, levels-1)
	young := l.youngest[level]
	l.prev[h], l.next[h] = firstEnd+uint32(level), young
	l.youngest[level] = uint32(h) + firstNode
	l.setPrev(young, uint32(h)+firstNode)
}

// unlink closes the list behind a block.
func (l *lru) unlink(h Handle) {
	next := l.neighbour(h)
	if next == 0 {
		panic(fmt.Sprintf("evict: block %d is not held", h))
	}
	prev := l.prev[h]
	l.setNext(prev, next)
	l.setPrev(next, prev)
}

func (l *lru) setPrev(node, prev uint32) {
	if node < firstNode {
		l.oldest[node-firstEnd] = prev
	} else {
		l.prev[node-firstNode] = prev
	}
}

func (l *lru) setNext(node, next uint32) {
	if node < firstNode {
		l.youngest[node-firstEnd] = next
	} else {
		l.next[node-firstNode] = next
	}
}
