package plan

import (
	"container/heap"
	"math"

	"github.com/spillway-kv/spillway/engine/evict"
)

// future is Belady's cache. It knows the request of each block's next use.
type future struct {
	t        *Trace
	capacity int
	nextUse  []uint32 // per reference: request of the next use of its block, or never
	current  []uint32 // per block: its next use as of the latest reference
	here     []bool
	held     int
	order    furthest // may hold outdated entries
}

const never = math.MaxUint32

type futureUse struct{ next, depth, block uint32 }

// furthest has the block used furthest ahead first, and of several the deepest.
type furthest []futureUse

func (h furthest) Len() int { return len(h) }
func (h furthest) Less(i, j int) bool {
	if h[i].next != h[j].next {
		return h[i].next > h[j].next
	}
	if h[i].depth != h[j].depth {
		return h[i].depth > h[j].depth
	}
	return h[i].block > h[j].block
}
func (h furthest) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *furthest) Push(x any)   { *h = append(*h, x.(futureUse)) }
func (h *furthest) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

func newFuture(t *Trace, capacity int) *future {
	f := &future{t: t, capacity: capacity, nextUse: make([]uint32, len(t.Blocks)), current: make([]uint32, t.Unique), here: make([]bool, t.Unique)}
	for b := range f.current {
		f.current[b] = never
	}
	for r := t.Requests() - 1; r >= 0; r-- {
		chain := t.chain(r)
		from := t.ends[r] - len(chain)
		for i, b := range chain {
			f.nextUse[from+i] = f.current[b]
		}
		for _, b := range chain {
			f.current[b] = uint32(r)
		}
	}
	return f
}

// begin looks up the next uses of a request's blocks.
func (f *future) begin(request int) {
	chain := f.t.chain(request)
	from := f.t.ends[request] - len(chain)
	for i, b := range chain {
		f.current[b] = f.nextUse[from+i]
		if f.here[b] {
			heap.Push(&f.order, futureUse{f.current[b], uint32(i), b})
		}
	}
}

func (f *future) has(block uint32) bool { return f.here[block] }

func (f *future) handle(uint32) evict.Handle { return 0 }

func (f *future) touch(uint32, evict.Access) {}

func (f *future) add(block uint32, a evict.Access) bool {
	next := f.current[block]
	if next == never {
		return false
	}
	for f.held >= f.capacity {
		top := f.order[0]
		if !f.here[top.block] || f.current[top.block] != top.next {
			heap.Pop(&f.order)
			continue
		}
		mine := furthest{{next, a.Depth, block}, top}
		if mine.Less(0, 1) {
			return false
		}
		heap.Pop(&f.order)
		f.here[top.block] = false
		f.held--
	}
	f.here[block] = true
	f.held++
	heap.Push(&f.order, futureUse{next, a.Depth, block})
	return true
}

func (f *future) restart(int64) error { return nil }

func (f *future) close() {}
