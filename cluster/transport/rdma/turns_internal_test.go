package rdma

import (
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// turnBlock is what a test knows of a block.
type turnBlock struct {
	base  uint64 // of its memory here; 0: it is missed
	size  int
	bytes int // posted
	told  int // records
	done  int
	list  uint64 // the last that has some of it
}

// turns is a sender whose every turn the test takes, with requests of blocks on one rail.
type turns struct {
	*testing.T
	d         *sender
	q         *recording
	asked     []*asked
	blocks    [][]turnBlock
	halted    []bool
	posted    uint64 // lists that were looked at
	completed uint64
}

// give answers a block, with memory that is its own.
func (s *turns) give(request, block int, memory []byte) {
	b, w := &s.blocks[request][block], &s.asked[request].blocks[block]
	if b.size < 0 {
		b.size = 0
		s.asked[request].None(block, transport.Miss)
		return
	}
	b.base = addressOf(memory)
	w.size = uint32(b.size)
	if b.size > 0 {
		cut := b.size / 3
		w.pieces = []target{{address: targetOf(request, block), bytes: uint32(b.size - cut)}}
		if cut > 0 {
			w.pieces = append(w.pieces, target{address: targetOf(request, block) + uint64(b.size-cut), bytes: uint32(cut)})
		}
	}
	half := b.size / 2
	s.asked[request].Block(block, [][]byte{memory[:half:half], {}, memory[half:b.size:b.size]}, 0, func() {
		if b.done++; b.done > 1 {
			s.Errorf("block %d of request %d is done with twice", block, request)
		}
		if b.list > s.completed {
			s.Errorf("block %d of request %d is let go of while list %d is posted", block, request, b.list)
		}
	})
}

// targetOf is where a block goes, as if memory there had no end.
func targetOf(request, block int) uint64 { return uint64(request+1)<<40 | uint64(block)<<32 }

// look takes in what one turn has posted, and says of which request: only of one, in order,
// each record behind its bytes, and the last write the only one with an immediate. That is
// left out if it has only a part of a block.
func (s *turns) look() (request, nBytes int) {
	s.Helper()
	request = -1
	before, notified := uint16(noLine), false
	for ; s.posted < uint64(len(s.q.lists)); s.posted++ {
		for _, w := range s.q.lists[s.posted] {
			if notified {
				s.Fatal("something is posted behind the immediate of a turn")
			}
			r, i := int(w.Target>>40)-1, int(w.Target>>32&0xff)
			var m record
			if w.Inline != nil {
				var err error
				m, err = parseRecord((*[recordBytes]byte)(w.Inline))
				must(s.T, err)
				r, i = int(m.request)-1, int(m.block)
			}
			if request >= 0 && r != request {
				s.Fatalf("a turn has requests %d and %d", request, r)
			}
			if request = r; s.halted[r] {
				s.Fatalf("a write of request %d, which is halted", r)
			}
			b := &s.blocks[r][i]
			b.list = s.posted + 1
			if w.Inline == nil {
				if w.Target != targetOf(r, i)+uint64(b.bytes) || b.told > 0 {
					s.Fatalf("block %d of request %d: a write to %#x behind %d bytes, told %d", i, r, w.Target, b.bytes, b.told)
				}
				if w.Source != b.base+uint64(b.bytes) && w.Source-addressOf(s.d.g.s.t.staging.mem) >= uint64(len(s.d.g.s.t.staging.mem)) {
					s.Fatalf("block %d of request %d: a write of what is at %#x", i, r, w.Source)
				}
				b.bytes += int(w.Bytes)
				nBytes += int(w.Bytes)
				continue
			}
			if b.told++; b.told > 1 || b.bytes != b.size || m.before != before {
				s.Fatalf("block %d of request %d is told for the %d. time, with %d of %d bytes, behind %d", i, r, b.told, b.bytes, b.size, m.before)
			}
			before, notified = s.asked[r].blocks[i].line, w.Notify
		}
	}
	if before != noLine && !notified {
		s.Fatal("a turn has records and no immediate")
	}
	return request, nBytes
}

// waits are the requests of which something is to be posted.
func (s *turns) waits() (all map[int]bool) {
	all = map[int]bool{}
	for r := range s.blocks {
		for i := range s.blocks[r] {
			if !s.halted[r] && s.blocks[r][i].told == 0 && s.asked[r].answered[i] {
				all[r] = true
			}
		}
	}
	return all
}

// TestTurns has many requests on one rail, of blocks of all sizes, that come and are halted at
// any time: each has its turn, of bounded length, and nothing is said or let go of too early.
func TestTurns(t *testing.T) {
	for seed := range uint64(200) {
		turnsOf(t, seed)
	}
}

func turnsOf(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	sizes := make([]int, 2+rng.IntN(4))
	s := &turns{T: t, halted: make([]bool, len(sizes))}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	const most = 2 << 20
	memory, err := offheap.Make[byte](most)
	must(t, err)
	defer memory.Free()
	for r := range sizes {
		sizes[r] = 1 + rng.IntN(8)
		s.blocks = append(s.blocks, make([]turnBlock, sizes[r]))
		largest := []int{1000, 100 << 10, most}[rng.IntN(3)]
		for i := range s.blocks[r] {
			s.blocks[r][i].size = rng.IntN(largest+2) - 1
		}
	}
	s.d, s.q, s.asked = still(t, sizes...)
	s.d.turn, s.d.piece = 256<<10, 64<<10
	all := &s.d.g.s.t.regions
	if s.d.g.s.t.staging, err = newRoom(all, 16<<20, transport.Source); err != nil {
		t.Fatal(err)
	}
	staging := s.d.g.s.t.staging
	defer staging.array.Free()
	list := snapshot{{base: addressOf(staging.mem), end: addressOf(staging.mem) + uint64(len(staging.mem)), at: []registered{{address: addressOf(staging.mem)}}}}
	if base := addressOf(memory.Slice()); rng.IntN(3) > 0 {
		r := &region{base: base, end: base + most/2 + uint64(rng.IntN(most/2)), at: []registered{{address: base}}}
		if list = append(list, r); r.base < list[0].base {
			list[0], list[1] = list[1], list[0]
		}
	}
	all.now.Store(&list)
	var left [][2]int
	for r := range sizes {
		for i := range sizes[r] {
			left = append(left, [2]int{r, i})
		}
	}
	rng.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
	s.run(rng, left, memory.Slice())
	for r := range s.blocks {
		for i := range s.blocks[r] {
			b := &s.blocks[r][i]
			if !s.halted[r] && b.told != 1 || b.base != 0 && b.done != 1 {
				t.Errorf("block %d of request %d, halted %v: %+v", i, r, s.halted[r], b)
			}
		}
	}
	if n := len(staging.free) * landingUnitBytes; n != len(staging.mem) {
		t.Errorf("%d bytes of staging memory are free", n)
	}
	for r, w := range s.d.waiting {
		if w.rest != nil || len(w.blocks) > 0 || r.live.Err() == nil {
			t.Errorf("request %d still waits", r.number)
		}
	}
}

// run takes steps until nothing is left to do.
func (s *turns) run(rng *rand.Rand, left [][2]int, memory []byte) {
	passed := map[int]int{} // turns of others, since its own
	for len(left) > 0 || len(s.waits()) > 0 || s.completed < s.posted {
		switch n := rng.IntN(10); {
		case n < 3 && len(left) > 0:
			s.give(left[0][0], left[0][1], memory)
			left = left[1:]
		case n < 8 && len(s.waits()) > 0 && s.posted-s.completed < 2: // there is room for a turn
			before := s.waits()
			w, o := s.d.next()
			rest := s.d.batch(w, o)
			r, nBytes := s.look()
			if rng.IntN(20) == 0 {
				s.halt(r)
			}
			s.d.done(w, rest)
			if nBytes > s.d.turn {
				s.Fatalf("a turn of %d bytes", nBytes)
			}
			for k := range before {
				if passed[k]++; k == r || s.halted[k] {
					passed[k] = 0
				}
				if passed[k] > len(s.asked) {
					s.Fatalf("request %d has waited for %d turns", k, passed[k])
				}
			}
		case n == 8 && rng.IntN(20) == 0:
			s.halt(rng.IntN(len(s.asked)))
		case s.completed < s.posted:
			s.completed++
			s.d.completed(s.completed)
		}
	}
}

func (s *turns) halt(request int) {
	s.halted[request] = true
	s.asked[request].halt()
}
