package evict

import (
	"fmt"
	"math"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// levels is how many importances the policies tell apart; higher ones count as
// the highest.
const levels = 4

// maxBlocksMax is the largest max of a factory: all nodes of its lists, handles
// and ends, are numbered in 32 bits.
const maxBlocksMax = math.MaxUint32 - 1 - levels*listsPerLevel

// links are the neighbours of a factory's handles in the lists of its policies.
// A handle is in one list at most. Node 0 is none, nodes 1..ends are the ends of
// a policy's own lists, and the rest are handles.
type links struct {
	prevMem, nextMem *offheap.Array[uint32]
	prev, next       []uint32 // 0: in no list
	first            uint32   // the node of handle 0
}

// newLinks makes room for handles 0..max in policies of so many lists each.
func newLinks(max, ends int) (links, error) {
	if max < 0 || max > maxBlocksMax {
		return links{}, fmt.Errorf("evict: a policy of %d blocks, want 0..%d", max, uint64(maxBlocksMax))
	}
	prevMem, err := offheap.Make[uint32](max + 1)
	if err != nil {
		return links{}, fmt.Errorf("evict: lists of %d blocks: %w", max, err)
	}
	nextMem, err := offheap.Make[uint32](max + 1)
	if err != nil {
		prevMem.Free()
		return links{}, fmt.Errorf("evict: lists of %d blocks: %w", max, err)
	}
	return links{prevMem, nextMem, prevMem.Slice(), nextMem.Slice(), uint32(1 + ends)}, nil
}

func (l *links) free() {
	l.prevMem.Free()
	l.nextMem.Free()
	*l = links{prevMem: l.prevMem, nextMem: l.nextMem}
}

// lists are the circular doubly linked lists of one policy, each from its end over
// the youngest to the oldest block and back.
type lists struct {
	links
	oldest   []uint32 // the node before an end
	youngest []uint32 // the node behind it
}

func newLists(l links) lists {
	s := lists{links: l, oldest: make([]uint32, l.first-1), youngest: make([]uint32, l.first-1)}
	for i := range s.oldest {
		s.oldest[i], s.youngest[i] = uint32(i+1), uint32(i+1)
	}
	return s
}

// last names the oldest block of a list, false if the list is empty.
func (s *lists) last(list int) (Handle, bool) {
	node := s.oldest[list]
	return Handle(node - s.first), node >= s.first
}

// neighbour is the node behind a block, 0 if no list holds it.
func (s *lists) neighbour(h Handle) uint32 {
	if int(h) >= len(s.next) {
		panic(fmt.Sprintf("evict: block %d in a policy of %d", h, len(s.next)-1))
	}
	return s.next[h]
}

// push links a block as the youngest of a list.
func (s *lists) push(list int, h Handle) {
	young, node := s.youngest[list], uint32(h)+s.first
	s.prev[h], s.next[h] = uint32(list+1), young
	s.youngest[list] = node
	s.setPrev(young, node)
}

// pushOld links a block as the oldest of a list.
func (s *lists) pushOld(list int, h Handle) {
	old, node := s.oldest[list], uint32(h)+s.first
	s.prev[h], s.next[h] = old, uint32(list+1)
	s.oldest[list] = node
	s.setNext(old, node)
}

// unlink closes the list behind a block, which the caller links anew or clears.
func (s *lists) unlink(h Handle) {
	next := s.neighbour(h)
	if next == 0 {
		panic(fmt.Sprintf("evict: block %d is not held", h))
	}
	prev := s.prev[h]
	s.setNext(prev, next)
	s.setPrev(next, prev)
}

// remove takes a block out of its list.
func (s *lists) remove(h Handle) {
	s.unlink(h)
	s.prev[h], s.next[h] = 0, 0
}

func (s *lists) setPrev(node, prev uint32) {
	if node < s.first {
		s.oldest[node-1] = prev
	} else {
		s.prev[node-s.first] = prev
	}
}

func (s *lists) setNext(node, next uint32) {
	if node < s.first {
		s.youngest[node-1] = next
	} else {
		s.next[node-s.first] = next
	}
}
