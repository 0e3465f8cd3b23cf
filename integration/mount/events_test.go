package mount

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// follow applies events to a set of keys until it is as want says.
func follow(t *testing.T, s *client.Subscription, have map[string]bool, want func() bool) (last uint64) {
	t.Helper()
	limit := time.After(time.Minute)
	for !want() {
		select {
		case e, ok := <-s.Events():
			if !ok {
				t.Fatalf("the subscription broke: %v", s.Err())
			}
			if last != 0 && e.Sequence <= last {
				t.Fatalf("event %d after %d", e.Sequence, last)
			}
			last = e.Sequence
			for _, k := range e.Keys {
				if e.Kind == client.EventStored {
					have[string(k)] = true
				} else {
					delete(have, string(k))
				}
			}
			if e.Kind == client.EventCleared {
				clear(have)
			}
		case <-limit:
			t.Fatalf("events end with %d keys", len(have))
		}
	}
	return last
}

// TestEvents: a client that follows events knows what is in the pool, over two stores;
// one that comes back goes on where it was; another namespace's events are not told.
func TestEvents(t *testing.T) {
	r := newRig(t, 2).start()
	c := r.dial()
	ns, other, rows := open(t, c, "a"), open(t, c, "b"), newPool(t, c, 50)
	s, err := ns.Subscribe(context.Background(), 0)
	must(t, err)
	have := map[string]bool{}
	rows.put(ns, 0, 50, client.Stored)
	rows.put(other, 1000, 50, client.Stored)
	rows.put(ns, 100, 50, client.Stored)
	last := follow(t, s, have, func() bool { return len(have) == 100 && have[string(key(0))] && have[string(key(149))] })
	if _, err := ns.Delete(context.Background(), 0, keys(0, 20)); err != nil {
		t.Fatal(err)
	}
	last = max(last, follow(t, s, have, func() bool { return len(have) == 80 }))
	s.Cancel()
	for range s.Events() {
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
	must(t, ns.Drop(context.Background()))
	rows.put(ns, 7, 1, client.Stored)
	again, err := ns.Subscribe(context.Background(), last+1)
	must(t, err)
	follow(t, again, have, func() bool { return maps.Equal(have, map[string]bool{string(key(7)): true}) })
	r.stop()
	for range again.Events() {
	}
	if again.Err() == nil {
		t.Error("the subscription ended without a word")
	}
	c.Close()
}

// TestEvictionsAreTold: in a pool that is too small the events still say what is there.
func TestEvictionsAreTold(t *testing.T) {
	r := newRig(t, 1)
	r.store.CapacityBytes = 32 << 20
	r.start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 20)
	s, err := ns.Subscribe(context.Background(), 0)
	must(t, err)
	have := map[string]bool{}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		rows.put(ns, rng.IntN(5000), 20, client.Stored, client.Present)
		select {
		case e := <-s.Events():
			for _, k := range e.Keys {
				if e.Kind == client.EventStored {
					have[string(k)] = true
				} else {
					delete(have, string(k))
				}
			}
		default:
		}
	}
	there := func() map[string]bool {
		set, all := map[string]bool{}, keys(0, 5020)
		m := ns.Match(all, client.MatchOptions{})
		for i, k := range all {
			if m.Present(i) {
				set[string(k)] = true
			}
		}
		return set
	}
	follow(t, s, have, func() bool { return maps.Equal(have, there()) })
	if len(have) >= 5000 || r.node.Stat().Stores[0].Counters.Evicted == 0 {
		t.Errorf("%d keys, nothing was evicted", len(have))
	}
	c.Close()
	r.stop()
}

// TestSlowReceiver: who does not take its events loses them, and is told so; nobody
// waits for it.
func TestSlowReceiver(t *testing.T) {
	r := newRig(t, 1).start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 1)
	s, err := ns.Subscribe(context.Background(), 0)
	must(t, err)
	if s.Oldest != 1 || s.Next != 1 {
		t.Errorf("%d to %d before anything happened", s.Oldest, s.Next)
	}
	for n := 0; n < 20_000 && s.Err() == nil; n++ { // more than its room
		rows.put(ns, n%1000, 1, client.Stored, client.Present)
		if _, err := ns.Delete(context.Background(), 0, keys(n%1000, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range s.Events() {
	}
	if !errors.Is(s.Err(), client.ErrEventsLost) {
		t.Errorf("a receiver that does not receive: %v", s.Err())
	}
	c.Close()
	r.stop()
}
