package engine_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// client is one of many that use a store at once, with everything it offers.
type client struct {
	t    *testing.T
	rng  *rand.Rand
	ns   []*engine.Namespace
	owed atomic.Int64 // late items less releases
	// drops lets one client at a time drop: a drop waits with a mutex held, and
	// virtual time stands still while another waits for the mutex.
	drops chan struct{}
}

func (c *client) step() {
	ns := c.ns[c.rng.IntN(len(c.ns))]
	chain := chains(c.rng, 20, 3, 30)
	size := ns.Descriptor().BlockBytes
	switch c.rng.IntN(20) {
	case 0:
		_, err := ns.Delete(keysOf(chain...))
		if err != nil {
			wantErr(c.t, err, engine.ErrGone)
		}
	case 1:
		if c.rng.IntN(10) == 0 {
			c.drops <- struct{}{}
			must(c.t, ns.Drop())
			<-c.drops
		} else if c.rng.IntN(4) == 0 {
			c.drops <- struct{}{}
			must(c.t, ns.SetQuota(int64(c.rng.IntN(4))*(256<<10)))
			<-c.drops
		}
	case 2, 3:
		m, err := ns.Match(keysOf(chain...), engine.MatchOptions{Lease: time.Duration(c.rng.IntN(100)) * time.Millisecond, TrailingN: 3})
		must(c.t, err)
		if c.rng.IntN(2) == 0 {
			ns.Release(m.Lease)
		}
	case 4:
		_, err := ns.Touch(keysOf(chain...))
		must(c.t, err)
	case 5, 6, 7, 8, 9:
		items := putItems(size, chain...)
		o := engine.PutOptions{Durability: engine.Durability(c.rng.IntN(8) / 7), DropIfBusy: c.rng.IntN(4) == 0}
		if c.rng.IntN(3) == 0 {
			c.deadline(&o.Deadline, &o.Released)
		}
		must(c.t, ns.Put(items, o))
		for i := range items {
			c.owe(items[i].Status, o.Released)
		}
		all(c.t, putStatuses(items), engine.Stored, engine.Present, engine.Dropped, engine.Late)
	default:
		items := getItems(size, c.rng.IntN(2) == 0, chain...)
		o := engine.GetOptions{Bounce: c.rng.IntN(4) == 0, NoTouch: c.rng.IntN(4) == 0}
		if c.rng.IntN(3) == 0 {
			c.deadline(&o.Deadline, &o.Released)
		}
		if c.rng.IntN(4) == 0 {
			n, err := ns.MatchGet(items, o)
			must(c.t, err)
			for i := range n {
				all(c.t, []engine.Status{items[i].Status}, engine.Hit)
			}
		} else {
			must(c.t, ns.Get(items, o))
		}
		for i, n := range chain {
			c.owe(items[i].Status, o.Released)
			if items[i].Status == engine.Hit && string(items[i].Dst[0]) != string(content(n, size)) {
				c.t.Errorf("block %d: wrong bytes", n)
			}
		}
	}
}

// deadline sets a short deadline, and counts the releases.
func (c *client) deadline(at *time.Time, released *func(int)) {
	*at = time.Now().Add(time.Duration(c.rng.IntN(5000)) * time.Microsecond)
	*released = func(int) { c.owed.Add(-1) }
}

// owe counts the items of calls that had a Released.
func (c *client) owe(s engine.Status, released func(int)) {
	if s == engine.Late && released != nil {
		c.owed.Add(1)
	}
}

func putStatuses(items []engine.PutItem) []engine.Status {
	out := make([]engine.Status, len(items))
	for i := range items {
		out[i] = items[i].Status
	}
	return out
}

// TestConcurrentUse: many clients with short deadlines, few frames, a small
// queue and a drive of uneven speed: every hit is exact, every late item is
// released once, and at rest nothing is held. So it is where long work is done in
// the smallest pieces, with everything else in between.
func TestConcurrentUse(t *testing.T) {
	steps := 150
	switch {
	case long():
		steps = 1500
	case testing.Short():
		steps = 40
	}
	for seed := range uint64(3) {
		for _, holdMax := range []int{engine.HoldMax, 1} {
			bubble(t, func(t *testing.T) { concurrentUse(t, seed, steps, holdMax) })
		}
	}
}

func concurrentUse(t *testing.T, seed uint64, steps, holdMax int) {
	r := newRig(t, sim.Config{Seed: seed, MaxLatency: 2 * time.Millisecond})
	o := small(engine.Options{CapacityBytes: 3 << 20, FrameBytes: 6 * 8192, QueueDepth: 16, QueueOps: 40,
		SyncInterval: 20 * time.Millisecond, LeaseShare: 0.5})
	s := r.open(o)
	s.SetHoldMax(holdMax)
	ns := []*engine.Namespace{namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes), namespace(t, s, "c", 20000)}
	var clients [16]client
	drops := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for i := range clients {
		c := &clients[i]
		c.t, c.ns, c.drops, c.rng = t, ns, drops, rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for range steps {
				c.step()
			}
		})
	}
	wg.Wait()
	time.Sleep(5 * time.Second) // late transfers end, frees are synced
	st := s.Stat()
	if st.Counters.TornBlocks+st.Counters.LostBlocks+st.Counters.ReadErrors+st.Counters.QuarantinedSlots != 0 || st.Health != "ok" {
		t.Errorf("seed %d: %+v", seed, st)
	}
	if st.Leases != 0 || st.LeasedBlocks != 0 {
		t.Errorf("seed %d: %d leases of %d blocks stay", seed, st.Leases, st.LeasedBlocks)
	}
	mustClose(t, s)
	for i := range clients {
		if n := clients[i].owed.Load(); n != 0 {
			t.Errorf("seed %d: client %d: late items less releases: %d", seed, i, n)
		}
	}
	s = r.open(o)
	for n := range 200 {
		checkedGet(t, namespace(t, s, "a", 4096), n)
	}
	mustClose(t, s)
}
