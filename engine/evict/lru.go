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
	// The nodes of the lists: node 0 is none, nodes 1..levels are the lists'
	// sentinels, lowest importance first, and the rest are handles.
	firstSentinel = 1
	firstNode     = firstSentinel + levels
	// lruMax is the largest max: all nodes are numbered in 32 bits.
	lruMax = math.MaxUint32 - firstNode
)

// LRU evicts the block touched longest ago among those of the lowest
// importance held. It tells importances 0..3 apart; what is above counts as 3.
// Age and importance are those of the latest Admit or Touch.
//
// With the caller's rule of applying chains tail first, a block is always
// older than its parent of the same importance, so chains shrink from their
// leaves.
//
// It keeps one circular doubly linked list per importance in two off-heap
// arrays of 4 bytes a handle each. Memory becomes resident as handles are used.
// Every method takes constant time and allocates nothing. Methods panic if the
// caller admits a held block, or touches, evicts or forgets one that is not.
type LRU struct {
	max        int
	held       int
	prevMem    *offheap.Array[uint32]
	nextMem    *offheap.Array[uint32]
	prev, next []uint32 // neighbours of a node; 0 if it is not held
}

var _ Policy = (*LRU)(nil)

// NewLRU makes an *LRU for handles 0..max, so that records numbered from 1 fit
// as they are. It panics if the system refuses the address space for the lists
// (8 bytes a handle). Free gives that memory back.
func NewLRU(max int) Policy {
	if max < 0 || max > lruMax {
		panic(fmt.Sprintf("evict: LRU of %d blocks, want 0..%d", max, uint64(lruMax)))
	}
	prevMem, err := offheap.Make[uint32](firstNode + max + 1)
	if err != nil {
		panic(fmt.Errorf("evict: %w", err))
	}
	nextMem, err := offheap.Make[uint32](firstNode + max + 1)
	if err != nil {
		prevMem.Free()
		panic(fmt.Errorf("evict: %w", err))
	}
	l := &LRU{
		max:     max,
		prevMem: prevMem,
		nextMem: nextMem,
		prev:    prevMem.Slice(),
		next:    nextMem.Slice(),
	}
	for s := uint32(firstSentinel); s < firstNode; s++ {
		l.prev[s], l.next[s] = s, s
	}
	return l
}

// Free gives back the memory of a policy that keeps some outside the Go heap,
// when the policy is no longer used: one that has a method Free. Others are the
// garbage collector's.
func Free(p Policy) {
	if f, ok := p.(interface{ Free() }); ok {
		f.Free()
	}
}

// Free gives the lists' memory back; the LRU is dead.
func (l *LRU) Free() {
	l.prevMem.Free()
	l.nextMem.Free()
	l.prev, l.next = nil, nil
}

// Name returns "lru".
func (l *LRU) Name() string { return "lru" }

// Len is the number of blocks held.
func (l *LRU) Len() int { return l.held }

// Admit adds a block as the youngest of its importance.
func (l *LRU) Admit(h Handle, a Access) {
	n := l.node(h)
	if l.next[n] != 0 {
		panic(fmt.Sprintf("evict: block %d admitted twice", h))
	}
	l.push(n, a.Importance)
	l.held++
}

// Touch makes a block the youngest of the importance given now.
func (l *LRU) Touch(h Handle, a Access) {
	n := l.heldNode(h)
	l.unlink(n)
	l.push(n, a.Importance)
}

// Victim names the oldest block of the lowest importance held.
func (l *LRU) Victim() (Handle, bool) {
	for s := uint32(firstSentinel); s < firstNode; s++ {
		if n := l.prev[s]; n != s {
			return Handle(n - firstNode), true
		}
	}
	return 0, false
}

// Evicted removes a block.
func (l *LRU) Evicted(h Handle) { l.Forget(h) }

// Forget removes a block.
func (l *LRU) Forget(h Handle) {
	n := l.heldNode(h)
	l.unlink(n)
	l.prev[n], l.next[n] = 0, 0
	l.held--
}

func (l *LRU) node(h Handle) uint32 {
	if int(h) > l.max {
		panic(fmt.Sprintf("evict: block %d in an LRU of %d", h, l.max))
	}
	return uint32(h) + firstNode
}

func (l *LRU) heldNode(h Handle) uint32 {
	n := l.node(h)
	if l.next[n] == 0 {
		panic(fmt.Sprintf("evict: block %d is not held", h))
	}
	return n
}

// push links a node behind its importance's sentinel, the young end.
func (l *LRU) push(n uint32, importance uint8) {
	s := firstSentinel + uint32(min(importance, levels-1))
	young := l.next[s]
	l.prev[n], l.next[n] = s, young
	l.next[s], l.prev[young] = n, n
}

func (l *LRU) unlink(n uint32) {
	prev, next := l.prev[n], l.next[n]
	l.next[prev], l.prev[next] = next, prev
}
