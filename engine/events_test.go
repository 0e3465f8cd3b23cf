package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// mirror keeps what events say is in a store.
type mirror struct {
	mu     sync.Mutex
	blocks map[string]bool
}

func name(ns *engine.Namespace, k engine.Key) string {
	return fmt.Sprintf("%s/%d/%s", ns.Descriptor().Name, k.Group, k.Bytes)
}

func (m *mirror) take(events []engine.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		switch e.Kind {
		case engine.EventStored:
			m.blocks[name(e.Namespace, e.Key)] = true
		case engine.EventRemoved:
			delete(m.blocks, name(e.Namespace, e.Key))
		case engine.EventCleared:
			for b := range m.blocks {
				if strings.HasPrefix(b, e.Namespace.Descriptor().Name+"/") {
					delete(m.blocks, b)
				}
			}
		}
	}
}

func (m *mirror) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.blocks))
}

// present are the names of all blocks of some namespaces.
func present(t *testing.T, spaces []*engine.Namespace) (names []string) {
	for _, ns := range spaces {
		must(t, ns.List(func(e engine.Entry) bool { names = append(names, name(ns, e.Key)); return true }))
	}
	slices.Sort(names)
	return names
}

// TestEventsMirrorTheStore: whoever applies all events knows what the store holds,
// through evictions, deletions and drops.
func TestEventsMirrorTheStore(t *testing.T) {
	for seed := range uint64(6) {
		r := newRig(t, sim.Config{Seed: seed})
		s := r.open(small(engine.Options{}))
		spaces := []*engine.Namespace{namespace(t, s, "a", 8192), namespace(t, s, "b", 4096)}
		m := &mirror{blocks: map[string]bool{}}
		s.Watch(m.take)
		rng := rand.New(rand.NewPCG(seed, 5))
		for range 300 {
			ns := spaces[rng.IntN(2)]
			from := rng.IntN(3000)
			switch rng.IntN(30) {
			case 0:
				if _, err := ns.Delete([]engine.Key{key(from), key(from + 1), key(from), key(from + 2)}); err != nil {
					t.Fatal(err)
				}
			case 1:
				if rng.IntN(4) == 0 {
					must(t, ns.Drop())
				}
			default:
				put(t, ns, engine.PutOptions{}, sequence(from, 1+rng.IntN(20))...)
			}
		}
		evicted := s.Stat().Counters.Evicted
		// The store may still be moving a segment between the namespaces, and a full log
		// takes what it owes when the index has been flushed.
		for try := 0; ; try++ {
			must(t, s.Settle())
			got, want := m.names(), present(t, spaces)
			if slices.Equal(got, want) {
				break
			}
			if try == 60_000 {
				t.Fatalf("seed %d: events say %d blocks, the store has %d", seed, len(got), len(want))
			}
			time.Sleep(time.Millisecond)
		}
		if evicted == 0 {
			t.Error("nothing was evicted")
		}
		s.Watch(nil)
		before := len(m.names())
		put(t, spaces[0], engine.PutOptions{}, sequence(100_000, 10)...)
		must(t, s.Settle())
		if len(m.names()) > before {
			t.Error("an event after the end of watching")
		}
		mustClose(t, s)
	}
}
