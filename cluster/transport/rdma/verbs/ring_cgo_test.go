//go:build verbs && linux && cgo

package verbs

import (
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// TestSendsCounted: room and numbers of posted lists, against a plain list of them, until one
// fails and the rest is flushed write by write, or not told at all.
func TestSendsCounted(t *testing.T) {
	const seed = 8
	random := rand.New(rand.NewPCG(seed, seed))
	for round := range 200 {
		room := 1 + random.IntN(12)
		s := &sendQueue{lists: make([]postedList, room)}
		type posted struct {
			id     uint64
			number uint64
			writes int
		}
		var out []posted
		used := 0
		d := s.done[0]
		for step := range 300 {
			switch writes := 1 + random.IntN(room); {
			case random.IntN(2) == 0:
				id := random.Uint64()
				number, ok := s.push(id, writes)
				if ok != (used+writes <= room) {
					t.Fatalf("seed %d, round %d, step %d: push of %d with %d of %d used: %v", seed, round, step, writes, used, room, ok)
				}
				if !ok {
					continue
				}
				if random.IntN(5) == 0 { // the device did not take it
					s.pop()
					continue
				}
				out = append(out, posted{id, number, writes})
				used += writes
			case len(out) > 0:
				d.number = setNumber(d.number, out[0].number)
				var c fabric.Completion
				if !s.judge(&d, &c) || c.ID != out[0].id || c.Result != fabric.OK {
					t.Fatalf("seed %d, round %d, step %d: list %d: %+v", seed, round, step, out[0].id, c)
				}
				used -= out[0].writes
				out = out[1:]
			}
		}
		d.status = 5
		for i, p := range out {
			for write := range p.writes {
				d.number = setNumber(d.number, p.number)
				var c fabric.Completion
				told := s.judge(&d, &c)
				if told != (write == 0) || told && (c.ID != p.id || c.Result != fabric.Flushed) {
					t.Fatalf("seed %d, round %d: write %d of flushed list %d: %v, %+v", seed, round, write, i, told, c)
				}
			}
		}
		if s.used != 0 || s.first != s.next {
			t.Fatalf("seed %d, round %d: %d writes left of lists %d to %d", seed, round, s.used, s.first, s.next)
		}
		for _, number := range []uint64{s.next, s.next + 1, 1 << 63} { // numbers that were never given
			d.number = setNumber(d.number, number)
			if s.judge(&d, new(fabric.Completion)) {
				t.Fatalf("list %d is told", number)
			}
		}
	}
}

// setNumber makes a number of C's type, which has no name here.
func setNumber[T ~uint64](_ T, number uint64) T { return T(number) }
