package pool_test

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member/membertest"
)

// TestErasedStaysErased: random histories of puts, deletes, drops, reads and moves, with
// nodes that die, come back, and do not hear each other. No read answers what was erased,
// as its node knew when it began. In the end all know the same.
func TestErasedStaysErased(t *testing.T) {
	schedules := uint64(120)
	switch {
	case testing.Short():
		schedules = 12
	case os.Getenv("SPILLWAY_LONG") == "1":
		schedules = 5000
	}
	reads, hits, carried := 0, 0, 0
	for seed := range schedules {
		synctest.Test(t, func(t *testing.T) {
			tombstones := 1 << 12
			if seed%3 == 0 {
				tombstones = 8 // a node that is away for more does not learn the names
			}
			g := newGrounds(t, seed, 2+int(seed%3), tombstones)
			g.run()
			reads, hits, carried = reads+g.reads, hits+g.hits, carried+g.carried
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d reads, %d of them hits, %d copies moved", reads, hits, carried)
	if hits*20 < reads || carried == 0 {
		t.Errorf("of %d reads %d were hits, and %d copies were moved: this tests little", reads, hits, carried)
	}
}

const keysInHistory = 6

// run is one history.
func (g *grounds) run() {
	time.Sleep(2 * time.Second)
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(g.client)
	}
	clients.Go(g.chaos)
	clients.Wait()
	g.net.HealAll()
	g.world.Settle()
	for _, s := range g.sites {
		if s.running() == nil {
			s.start()
		}
	}
	time.Sleep(time.Minute)
	clock, digest := g.sites[0].running().pool.Standing()
	for _, s := range g.sites {
		for k := range keysInHistory {
			g.read(s.n, k)
		}
		if c, d := s.running().pool.Standing(); !c.Covers(clock) || !clock.Covers(c) || d != digest {
			g.t.Errorf("seed %d: site %d knows %v, site 0 %v", g.seed, s.n, c, clock)
		}
		if a, b := s.running().Incarnation(), g.sites[0].running().Incarnation(); a != b {
			g.t.Errorf("seed %d: site %d is at incarnation %d, site 0 at %d", g.seed, s.n, a, b)
		}
	}
	for _, s := range g.sites {
		s.stop()
	}
	g.net.Close()
	synctest.Wait()
}

// client does what clients do, at nodes of its choice.
func (g *grounds) client() {
	for range 40 {
		n, k := g.draw(len(g.sites)), g.draw(keysInHistory)
		switch d := g.draw(100); {
		case d < 35:
			g.put(n, k)
		case d < 60:
			g.read(n, k)
		case d < 75:
			g.erase(n, k)
		case d < 77:
			g.erase(n, -1)
		default:
			g.carry(n, g.draw(len(g.sites)), k)
		}
		g.pause(200 * time.Millisecond)
	}
}

// chaos ends processes and cuts the network.
func (g *grounds) chaos() {
	for range 12 {
		g.pause(2 * time.Second)
		s := g.sites[g.draw(len(g.sites))]
		other := g.sites[g.draw(len(g.sites))]
		switch g.draw(8) {
		case 0:
			s.kill(false)
		case 1:
			s.kill(true)
		case 2:
			s.stop()
		case 3:
			g.net.Cut(s.address, other.address)
			g.net.Cut(other.address, s.address)
		case 4:
			g.net.Cut(s.address, other.address)
		case 5:
			g.world.See(nodeID(s.n), nodeID(other.n), membertest.Sight(g.draw(3)))
		case 6:
			g.net.HealAll()
			g.world.Settle()
		case 7:
			g.net.Freeze(s.address)
			g.pause(time.Second)
			g.net.Thaw(s.address)
		}
		if g.draw(2) == 0 {
			for _, s := range g.sites {
				if s.running() == nil {
					s.start()
				}
			}
		}
	}
}
