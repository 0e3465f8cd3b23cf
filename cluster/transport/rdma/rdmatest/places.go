package rdmatest

import (
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

// fieldBytes is how much memory of each kind a node has.
const fieldBytes = 8 << 20

// wallBytes is around every block.
const wallBytes = 64

// field is memory of one kind of a node. What is not lent holds the pattern.
type field struct {
	mem []byte

	mu   sync.Mutex
	idle *sync.Cond
	next int     // where the next block is looked for: memory is used again late
	lent []place // sorted by address
}

// place is memory of one block, with walls.
type place struct{ from, to int }

// memories are used again by the next history: each is proven to hold the pattern at the end.
var memories sync.Pool

func newField() *field {
	f := &field{}
	f.idle = sync.NewCond(&f.mu)
	if mem, again := memories.Get().(*[]byte); again {
		f.mem = *mem
		return f
	}
	f.mem = make([]byte, fieldBytes)
	transporttest.Spoil(f.mem)
	return f
}

// lend finds room for n bytes, which lie between walls. ok is false if there is none now.
// pure is false if somebody has written to memory that was not lent.
func (f *field) lend(n int) (p place, ok, pure bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	need := n + 2*wallBytes
	for _, from := range []int{f.next, 0} {
		if p, ok = f.findLocked(from, need); ok {
			break
		}
	}
	if !ok {
		return p, false, true
	}
	f.next = p.to
	return p, true, transporttest.IsSpoilt(f.mem[p.from:p.to])
}

func (f *field) findLocked(from, need int) (p place, ok bool) {
	at := 0
	for at < len(f.lent) && f.lent[at].to <= from {
		at++
	}
	for ; at <= len(f.lent); at++ {
		end := len(f.mem)
		if at < len(f.lent) {
			end = f.lent[at].from
		}
		if end-from >= need {
			p = place{from, from + need}
			f.lent = append(f.lent, place{})
			copy(f.lent[at+1:], f.lent[at:])
			f.lent[at] = p
			return p, true
		}
		if at < len(f.lent) {
			from = f.lent[at].to
		}
	}
	return p, false
}

// bytes is what lies between the walls.
func (f *field) bytes(p place) []byte {
	return f.mem[p.from+wallBytes : p.to-wallBytes : p.to-wallBytes]
}

// back takes a place back and fills it with the pattern. Broken walls are told.
func (f *field) back(p place) (walls bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	walls = transporttest.IsSpoilt(f.mem[p.from:p.from+wallBytes]) && transporttest.IsSpoilt(f.mem[p.to-wallBytes:p.to])
	transporttest.Spoil(f.mem[p.from:p.to])
	for i := range f.lent {
		if f.lent[i] == p {
			f.lent = append(f.lent[:i], f.lent[i+1:]...)
			f.idle.Broadcast()
			return walls
		}
	}
	panic("memory comes back that was not lent")
}

// whenIdle runs f while nothing is lent, once that is so.
func (f *field) whenIdle(run func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.lent) > 0 {
		f.idle.Wait()
	}
	run()
}

// settle says at the end how much is lent, and whether the rest holds the pattern. Memory of
// which nothing is lent may be used by another history.
func (f *field) settle() (lent int, pure bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pure = true
	from := 0
	for _, p := range append(f.lent, place{len(f.mem), len(f.mem)}) {
		pure = pure && transporttest.IsSpoilt(f.mem[from:p.from])
		from = p.to
	}
	if lent = len(f.lent); lent == 0 && pure {
		memories.Put(&f.mem)
	}
	return lent, pure
}
