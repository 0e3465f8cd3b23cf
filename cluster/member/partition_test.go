package member

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// TestPartitionHeals: two halves lose each other for so long that the library has
// forgotten the other half, and find each other by themselves.
func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	p := relayedPool(t, 4)
	a, b := p.nodes[:2], p.nodes[2:]
	p.cut(0, 2, 3)
	p.cut(1, 2, 3)
	p.cut(2, 0, 1)
	p.cut(3, 0, 1)
	agree(t, a...)
	agree(t, b...)
	for _, g := range p.nodes {
		until(t, "the library of "+g.o.Name+" has forgotten the other half", func() bool {
			for _, m := range g.Status().Members {
				if m.Health == Failed && m.Since < 4*g.t.gossipToDead {
					return false
				}
			}
			return true
		})
	}
	p.heal()
	agree(t, p.nodes...)
	for _, g := range p.nodes {
		if s := g.Status(); s.Refused != "" || len(s.Members) != 3 {
			t.Errorf("%s: refused %q, members %v", g.o.Name, s.Refused, s.Members)
		}
	}
}

// TestOneWayPartition: what one node sends does not arrive. Whatever the others make of
// it, all are members again when it heals.
func TestOneWayPartition(t *testing.T) {
	t.Parallel()
	p := relayedPool(t, 3)
	p.cut(0, 2)
	p.cut(1, 2)
	for _, i := range []int{0, 1} {
		until(t, "n3 is missed", func() bool {
			m, ok := memberOf(p.nodes[i], "n3")
			return ok && (m.Health != Alive || m.Legs[1].Error != "")
		})
	}
	until(t, "n1 and n2 have each other", func() bool { return healthOf(p.nodes[0], "n2") == Alive && healthOf(p.nodes[1], "n1") == Alive })
	p.heal()
	agree(t, p.nodes...)
	for _, g := range p.nodes {
		until(t, g.o.Name+" finds all alive", func() bool {
			for _, m := range g.Status().Members {
				if m.Health != Alive {
					return false
				}
			}
			return true
		})
	}
}

// TestSickNodeHarmsNobody (P41): one of five hears and says nothing, again and again. The
// others never take each other for failed.
func TestSickNodeHarmsNobody(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("it takes long, so that a busy machine makes no difference")
	}
	t.Parallel()
	busy := watchForStarvation(t)
	var journals []*journal.Journal
	p := relayedPool(t, 5, func(o *Options) {
		o.Journal = journal.New(nil)
		journals = append(journals, o.Journal)
		o.tune = func(tm *timing) {
			quick(tm)
			tm.probeInterval, tm.probeTimeout, tm.suspicionMult = 200*time.Millisecond, 200*time.Millisecond, 20
			tm.gossipInterval = 100 * time.Millisecond
		}
	})
	for range 2 {
		for i := range 4 {
			p.cut(i, 4)
		}
		p.cut(4, 0, 1, 2, 3)
		agree(t, p.nodes[:4]...)
		p.heal()
		agree(t, p.nodes...)
	}
	if gap := busy(); gap > time.Second {
		t.Skipf("this machine did nothing for %v: no wonder if nodes do not answer", gap)
	}
	for i, j := range journals[:4] {
		events, _ := j.After(0, journal.EventsMax)
		failed := 0
		for _, e := range events {
			if e.Kind == journal.Failed && e.Node != "n5" {
				t.Errorf("n%d has found %s failed: %s", i+1, e.Node, e.Text)
			}
			if e.Kind == journal.Failed && e.Node == "n5" {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("n%d never found n5 failed: the test shows nothing", i+1)
		}
	}
}

// watchForStarvation measures the longest time in which this process got no CPU, until the
// function that it returns is called.
func watchForStarvation(t *testing.T) func() time.Duration {
	var longest atomic.Int64
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			longest.Store(max(longest.Load(), int64(time.Since(last))))
			last = time.Now()
		}
	})
	var once sync.Once
	end := func() { once.Do(func() { close(stop); done.Wait() }) }
	t.Cleanup(end)
	return func() time.Duration {
		end()
		return time.Duration(longest.Load())
	}
}

// TestOnlyTCP (P37): UDP does not pass. Members stay members, and status names the leg.
func TestOnlyTCP(t *testing.T) {
	t.Parallel()
	p := relayedPool(t, 3, calm)
	for _, r := range p.relays {
		r.cut(func(_ netip.Addr, udp bool) bool { return udp })
	}
	for _, g := range p.nodes {
		for _, other := range p.nodes {
			if other == g {
				continue
			}
			want := "udp probe failing to " + other.o.Name + " (" + other.advertise.String() + "): no answer"
			until(t, g.o.Name+" says: "+want, func() bool {
				m, _ := memberOf(g, other.o.Name)
				return len(m.Legs) == 3 && m.Legs[0].Error == want && m.Legs[1].Error == "" && m.Legs[2].Error == ""
			})
		}
	}
	// Some rounds of probes later nobody has failed.
	before := p.nodes[0].Status().Counters.StreamsOut
	until(t, "n1 has probed on, over TCP", func() bool { return p.nodes[0].Status().Counters.StreamsOut > before+15 })
	for _, g := range p.nodes {
		if c := g.Status().Counters; c.Failed != 0 {
			t.Errorf("%s: %d members failed", g.o.Name, c.Failed)
		}
	}
}
