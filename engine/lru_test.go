package engine_test

import (
	"container/list"
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// lruModel is a tail-first LRU of whole blocks, the simplest one there is.
type lruModel struct {
	slots int
	order *list.List // youngest first
	at    map[int]*list.Element
}

func newLRUModel(slots int) *lruModel {
	return &lruModel{slots: slots, order: list.New(), at: map[int]*list.Element{}}
}

// get says which blocks of a chain are present and touches them, leaf first.
func (m *lruModel) get(chain []int) (hits []bool) {
	hits = make([]bool, len(chain))
	for i := len(chain) - 1; i >= 0; i-- {
		if e := m.at[chain[i]]; e != nil {
			hits[i] = true
			m.order.MoveToFront(e)
		}
	}
	return hits
}

func (m *lruModel) put(chain []int) {
	for i := len(chain) - 1; i >= 0; i-- {
		if e := m.at[chain[i]]; e != nil {
			m.order.MoveToFront(e)
			continue
		}
		for m.order.Len() >= m.slots {
			last := m.order.Back()
			delete(m.at, m.order.Remove(last).(int))
		}
		m.at[chain[i]] = m.order.PushFront(chain[i])
	}
}

// chains makes requests for token sequences that share beginnings: block
// numbers of a random walk in a tree.
func chains(rng *rand.Rand, roots, fan, depthMax int) []int {
	n := rng.IntN(roots) + 1
	chain := []int{n}
	for range rng.IntN(depthMax) {
		n = n*7 + roots + 1 + min(rng.IntN(fan), rng.IntN(fan))
		n %= 1 << 40
		chain = append(chain, n)
	}
	return chain
}

// TestLRUExact: with a sequential client every answer is that of the model with
// as many slots as Stat reports.
func TestLRUExact(t *testing.T) {
	requests := 3000
	switch {
	case long():
		requests = 50000
	case testing.Short():
		requests = 500
	}
	for _, seed := range []uint64{1, 2} {
		r := newRig(t, sim.Config{Seed: seed})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		model := newLRUModel(ns.Stat().Slots)
		rng := rand.New(rand.NewPCG(seed, 5))
		hits, wanted := 0, 0
		for n := range requests {
			chain := chains(rng, 12, 3, 24)
			wanted += len(chain)
			want := model.get(chain)
			for i, st := range get(t, ns, chain...) {
				if (st == engine.Hit) != want[i] || st != engine.Hit && st != engine.Miss {
					t.Fatalf("seed %d, request %d: block %d at depth %d is a %v, in the model it is there: %v", seed, n, chain[i], i, st, want[i])
				}
				if want[i] {
					hits++
				}
			}
			model.put(chain)
			all(t, put(t, ns, engine.PutOptions{}, chain...), engine.Stored, engine.Present)
			if st := ns.Stat(); st.Slots != model.slots || st.Blocks != model.order.Len() {
				t.Fatalf("seed %d, request %d: %d slots and %d blocks, the model has %d and %d",
					seed, n, st.Slots, st.Blocks, model.slots, model.order.Len())
			}
		}
		if got := s.Stat().Counters; got.Hits != uint64(hits) || got.Misses != uint64(wanted-hits) || got.Evicted == 0 {
			t.Errorf("seed %d: %d hits of %d, counted %+v", seed, hits, wanted, got)
		}
		t.Logf("seed %d: %d hits of %d blocks, %d slots", seed, hits, wanted, model.slots)
		mustClose(t, s)
	}
}

// TestOrderSurvivesRestart: after a restart the order of eviction is that of
// the puts, and new blocks are the youngest (pitfall P20).
func TestOrderSurvivesRestart(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns := namespace(t, s, "a", 4096)
	slots := ns.Stat().Slots
	for n := range slots {
		all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
	}
	mustClose(t, s)
	s = r.open(engine.Options{})
	ns = namespace(t, s, "a", 4096)
	if got := ns.Stat(); got.Slots != slots || got.Blocks != slots {
		t.Fatalf("%+v, want %d", got, slots)
	}
	all(t, put(t, ns, engine.PutOptions{}, sequence(5000, 10)...), engine.Stored)
	for n := range slots {
		want := engine.Hit
		if n < 10 {
			want = engine.Miss
		}
		all(t, noTouch(t, ns, n), want)
	}
	all(t, get(t, ns, sequence(5000, 10)...), engine.Hit)
	mustClose(t, s)
}

// noTouch reads blocks and leaves their age alone.
func noTouch(t testing.TB, ns *engine.Namespace, blocks ...int) []engine.Status {
	t.Helper()
	items := make([]engine.GetItem, len(blocks))
	for i, n := range blocks {
		items[i] = engine.GetItem{Key: key(n), Dst: [][]byte{device.AlignedBuffer(ns.Descriptor().BlockBytes, 4096)}}
	}
	must(t, ns.Get(items, engine.GetOptions{NoTouch: true}))
	out := make([]engine.Status, len(items))
	for i := range items {
		out[i] = items[i].Status
	}
	return out
}

// TestTouchesCount: Touch and Get make a block young, NoTouch and Match do not,
// and importance outranks age.
func TestTouchesCount(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns := namespace(t, s, "a", 4096)
	slots := ns.Stat().Slots
	important := []engine.PutItem{{Key: key(0), Src: [][]byte{content(0, 4096)}, Importance: 1}}
	must(t, ns.Put(important, engine.PutOptions{}))
	for n := 1; n < slots; n++ {
		all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
	}
	all(t, get(t, ns, 1), engine.Hit)
	all(t, noTouch(t, ns, 2), engine.Hit)
	if n, err := ns.Touch([]engine.Key{key(3), key(99999)}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if m, err := ns.Match([]engine.Key{key(4)}, engine.MatchOptions{}); err != nil || m.Prefix != 1 {
		t.Fatal(m, err)
	}
	all(t, put(t, ns, engine.PutOptions{}, sequence(5000, 3)...), engine.Stored)
	all(t, noTouch(t, ns, 2, 4, 5), engine.Miss)
	all(t, noTouch(t, ns, 0, 1, 3, 6), engine.Hit)
	mustClose(t, s)
}
