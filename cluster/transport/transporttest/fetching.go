package transporttest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// fetching is a Fetch with memory that is watched.
type fetching struct {
	k        *kit
	orders   []order
	memory   []guarded
	f        transport.Fetching
	arrived  []bool // only the goroutine of Fetch may write it: the race detector sees to that
	released []atomic.Int32
	onArrive func(count int)
	count    int
}

func (k *kit) fetching(rng *rand.Rand, orders []order) *fetching {
	t := &fetching{k: k, orders: orders, arrived: make([]bool, len(orders)), released: make([]atomic.Int32, len(orders))}
	for _, o := range orders {
		g := newGuarded(rng, int(o.size))
		t.memory = append(t.memory, g)
		t.f.Blocks = append(t.f.Blocks, transport.Block{Dst: g.pieces})
	}
	t.f.Arrived = t.arrive
	t.f.Released = func(i int) {
		if t.released[i].Add(1) != 1 {
			k.Errorf("block %d was released twice", i)
		}
		if s := t.f.Blocks[i].Status; s != transport.Late {
			k.Errorf("block %d was released with status %d", i, s)
		}
		k.watched.add(t.memory[i])
	}
	return t
}

func (t *fetching) arrive(i int) {
	if t.arrived[i] {
		t.k.Errorf("block %d arrived twice", i)
	}
	t.arrived[i] = true
	t.proof(i)
	t.count++
	if t.onArrive != nil {
		t.onArrive(t.count)
	}
}

// proof checks what a block's status promises.
func (t *fetching) proof(i int) {
	b, o := &t.f.Blocks[i], t.orders[i]
	switch b.Status {
	case transport.Done:
		if o.what != send || b.Checksum != sumOf(o.id) || !same(b.Dst, o.id) {
			t.k.Errorf("block %d of %d bytes came with other bytes, or another checksum", i, o.size)
		}
	case transport.Miss, transport.Refused, transport.Late, transport.Lost:
	default:
		t.k.Errorf("block %d has status %d", i, b.Status)
	}
	if b.Status != transport.Late && !t.memory[i].wallsStand() {
		t.k.Errorf("block %d of %d bytes: memory around it was written to", i, o.size)
	}
}

// run fetches, proves every block, and has what is left of them watched.
func (t *fetching) run(ctx context.Context, l transport.Link, kind transport.Kind) ([]byte, error) {
	answer, err := l.Fetch(ctx, kind, encode(t.orders), &t.f)
	for i := range t.f.Blocks {
		s := t.f.Blocks[i].Status
		t.proof(i)
		if told := s != transport.Late && s != transport.Lost; t.arrived[i] != told {
			t.k.Errorf("block %d with status %d: arrived %v", i, s, t.arrived[i])
		}
		if s != transport.Late {
			t.k.watched.add(t.memory[i])
		}
	}
	return answer, err
}

// want compares the statuses.
func (t *fetching) want(of func(i int) transport.Status) {
	t.k.Helper()
	for i := range t.f.Blocks {
		if got, want := t.f.Blocks[i].Status, of(i); got != want {
			t.k.Errorf("block %d has status %d, want %d", i, got, want)
		}
	}
}

// lateOnesReleased is to be called once the links are closed.
func (t *fetching) lateOnesReleased() {
	t.k.Helper()
	for i := range t.f.Blocks {
		if late := t.f.Blocks[i].Status == transport.Late; late != (t.released[i].Load() == 1) {
			t.k.Errorf("block %d with status %d was released %d times", i, t.f.Blocks[i].Status, t.released[i].Load())
		}
	}
}

// orders draws some of sizes that add up to little.
func randomOrders(rng *rand.Rand, n int) []order {
	orders := make([]order, n)
	for i := range orders {
		size := sizes[rng.IntN(len(sizes)-3)]
		if size > 4096 && rng.IntN(3) > 0 {
			size = rng.IntN(40000)
		}
		orders[i] = order{id: rng.Uint64(), size: uint32(size)}
		if rng.IntN(8) == 0 {
			orders[i].what = miss
		}
	}
	return orders
}
