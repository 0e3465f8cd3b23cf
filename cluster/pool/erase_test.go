package pool_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// onGrounds runs f with n nodes that have merged.
func onGrounds(t *testing.T, seed uint64, n, tombstones int, f func(t *testing.T, g *grounds)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGrounds(t, seed, n, tombstones)
		for _, s := range g.sites {
			s.disk.SetFaults(sim.Plan{})
		}
		time.Sleep(2 * time.Second)
		f(t, g)
		for _, s := range g.sites {
			s.stop()
		}
		g.net.Close()
		synctest.Wait()
	})
}

// has says which nodes have a block themselves.
func (g *grounds) has(k int) (nodes []bool) {
	for _, s := range g.sites {
		p := s.running()
		nodes = append(nodes, p != nil && p.Present(s.ids(k))[0])
	}
	return nodes
}

func (s *site) ids(k int) []pool.ID {
	ids, _ := s.running().IDs([]engine.Key{key(k)})
	return ids
}

// everywhere puts a block on every node, past the pool.
func (g *grounds) everywhere(k int) {
	g.t.Helper()
	for _, s := range g.sites {
		items := []engine.PutItem{{Key: key(k), Src: [][]byte{stamped(k)}}}
		if err := s.running().ns.Put(items, engine.PutOptions{Durability: engine.Durable}); err != nil || items[0].Status != engine.Stored {
			g.t.Fatal(err, items[0].Status)
		}
	}
}

func (g *grounds) stat(n int) pool.EraseStat { return g.sites[n].running().pool.Stat().Erase }

// apart cuts a node off from all others, or joins it to them again.
func (g *grounds) apart(n int, cut bool) {
	for _, s := range g.sites {
		if s.n == n {
			continue
		}
		a, b := g.sites[n].address, s.address
		if cut {
			g.net.Cut(a, b)
			g.net.Cut(b, a)
		} else {
			g.net.Heal(a, b)
			g.net.Heal(b, a)
		}
	}
}

func count(is []bool) (n int) {
	for _, yes := range is {
		if yes {
			n++
		}
	}
	return n
}

// TestDelete: a block goes everywhere before the answer; one with nobody's copy, too.
func TestDelete(t *testing.T) {
	onGrounds(t, 1, 3, 64, func(t *testing.T, g *grounds) {
		g.everywhere(1)
		g.everywhere(2)
		if missing, ok := g.erase(0, 1); !ok || missing != 0 {
			t.Fatalf("%d have not confirmed, %v", missing, ok)
		}
		if n := count(g.has(1)); n != 0 {
			t.Errorf("%d nodes have it", n)
		}
		if n := count(g.has(2)); n != 3 {
			t.Errorf("%d nodes have the other", n)
		}
		if missing, ok := g.erase(2, 7); !ok || missing != 0 {
			t.Fatalf("%d have not confirmed, %v", missing, ok)
		}
		for n := range g.sites {
			if st := g.stat(n); st.Tombstones != 2 || st.Origins != 2 || !st.Joined || st.Failed != "" {
				t.Errorf("node %d: %+v", n, st)
			}
		}
		if st := g.stat(0); st.Deleted != 1 || st.Taken != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestDropEverywhere: all nodes go on under one incarnation, whoever drops.
func TestDropEverywhere(t *testing.T) {
	onGrounds(t, 1, 3, 64, func(t *testing.T, g *grounds) {
		for i, n := range []int{0, 2, 2} {
			g.everywhere(1)
			if missing, ok := g.erase(n, -1); !ok || missing != 0 {
				t.Fatalf("%d have not confirmed, %v", missing, ok)
			}
			for _, s := range g.sites {
				if at := s.running().Incarnation(); at != uint32(i+2) {
					t.Errorf("drop %d: node %d is at incarnation %d", i, s.n, at)
				}
			}
			if n := count(g.has(1)); n != 0 {
				t.Errorf("%d nodes have it", n)
			}
		}
		if st := g.stat(1); st.Raised != 3 || st.Cleared != 0 || st.Floors != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestDeleteWithoutOne: a node that cannot be reached is told to have not confirmed, in
// bounded time; nobody who knows of the deletion gets the block from it, and soon after
// it is back it knows, too.
func TestDeleteWithoutOne(t *testing.T) {
	onGrounds(t, 2, 3, 64, func(t *testing.T, g *grounds) {
		g.everywhere(1)
		g.apart(2, true)
		began := time.Now()
		if missing, ok := g.erase(0, 1); !ok || missing != 1 {
			t.Fatalf("%d have not confirmed, %v", missing, ok)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %v", took)
		}
		if has := g.has(1); count(has) != 1 || !has[2] {
			t.Errorf("nodes with the block: %v", has)
		}
		if number := g.readPlain(2, 1); number != 1 {
			t.Error("the node apart is to go on with what it has")
		}
		g.apart(2, false)
		for range 50 {
			if number := g.readPlain(0, 1); number != 0 {
				t.Fatal("a deleted block came back")
			}
			time.Sleep(200 * time.Millisecond)
		}
		if n := count(g.has(1)); n != 0 {
			t.Errorf("%d nodes have it", n)
		}
	})
}

// readPlain is what a node finds, here or elsewhere; 0: nothing.
func (g *grounds) readPlain(n, k int) int {
	g.mu.Lock()
	for len(g.puts) <= k {
		g.puts = append(g.puts, nil)
	}
	g.puts[k] = &putRecord{key: k} // as everywhere put it
	g.mu.Unlock()
	return g.read(n, k)
}

// TestPutAfterDelete: a put by somebody who knows of the deletion stays, also on a node
// that hears of the deletion by this very put, and then once more.
func TestPutAfterDelete(t *testing.T) {
	onGrounds(t, 3, 3, 64, func(t *testing.T, g *grounds) {
		g.everywhere(1)
		g.apart(2, true)
		if missing, ok := g.erase(0, 1); !ok || missing != 1 {
			t.Fatalf("%d have not confirmed, %v", missing, ok)
		}
		items := []engine.PutItem{{Key: key(1), Src: [][]byte{stamped(9)}}}
		if err := g.sites[0].running().ns.Put(items, engine.PutOptions{}); err != nil || items[0].Status != engine.Stored {
			t.Fatal(err, items[0].Status)
		}
		g.apart(2, false)
		g.carry(0, 2, 1) // a node's copy goes with what that node knows
		if g.carried != 1 {
			t.Fatal("it was not carried")
		}
		for range 3 {
			time.Sleep(5 * time.Second)
			if has := g.has(1); !has[0] || !has[2] {
				t.Fatalf("nodes with the block: %v", has)
			}
		}
		if st := g.stat(2); st.Taken != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestMoveDuringDelete: a copy that was read before the deletion comes too late.
func TestMoveDuringDelete(t *testing.T) {
	onGrounds(t, 4, 2, 64, func(t *testing.T, g *grounds) {
		for _, k := range []int{1, -1} {
			items := []engine.PutItem{{Key: key(1), Src: [][]byte{stamped(1)}}}
			if err := g.sites[0].running().ns.Put(items, engine.PutOptions{}); err != nil || items[0].Status != engine.Stored {
				t.Fatal(err, items[0].Status)
			}
			p := g.sites[0].running()
			ids, incarnation := p.IDs([]engine.Key{key(1)})
			p.pool.Carry(context.Background(), pool.Of{Namespace: p.shelf.id, Incarnation: incarnation, BlockBytes: blockBytes}, ids[0], key(1), nodeID(1), func() {
				if missing, ok := g.erase(1, k); !ok || missing != 0 {
					t.Errorf("%d have not confirmed, %v", missing, ok)
				}
			})
			if n := count(g.has(1)); n != 0 {
				t.Errorf("%d nodes have it", n)
			}
		}
	})
}

// TestDropsApart: two halves of a pool drop a namespace without knowing of each other.
// What one half put between the two drops is erased by the later one.
func TestDropsApart(t *testing.T) {
	onGrounds(t, 5, 2, 64, func(t *testing.T, g *grounds) {
		g.apart(1, true)
		if _, ok := g.erase(0, -1); !ok {
			t.Fatal("no drop")
		}
		items := []engine.PutItem{{Key: key(1), Src: [][]byte{stamped(1)}}}
		if err := g.sites[0].running().ns.Put(items, engine.PutOptions{}); err != nil || items[0].Status != engine.Stored {
			t.Fatal(err, items[0].Status)
		}
		if _, ok := g.erase(1, -1); !ok {
			t.Fatal("no drop")
		}
		g.apart(1, false)
		for range 50 {
			if number := g.readPlain(1, 1); number != 0 {
				t.Fatal("what was put before the drop came back")
			}
			time.Sleep(200 * time.Millisecond)
		}
		a, b := g.sites[0].running().Incarnation(), g.sites[1].running().Incarnation()
		if a != b || count(g.has(1)) != 0 || g.stat(0).Cleared != 1 {
			t.Errorf("incarnations %d and %d, nodes with the block %v, %+v", a, b, g.has(1), g.stat(0))
		}
	})
}

// TestAwayTooLong: a node that was away for more deletions than the others can name gives
// all its blocks of the namespace up before it answers anybody.
func TestAwayTooLong(t *testing.T) {
	for _, tombstones := range []int{8, 64} {
		onGrounds(t, 6, 3, tombstones, func(t *testing.T, g *grounds) {
			for k := 1; k <= 20; k++ {
				g.everywhere(k)
			}
			g.everywhere(99)
			g.sites[2].stop()
			time.Sleep(time.Second)
			for k := 1; k <= 20; k++ {
				if missing, ok := g.erase(0, k); !ok || missing != 0 {
					t.Fatalf("%d have not confirmed, %v", missing, ok)
				}
			}
			g.sites[2].start()
			<-g.sites[2].running().pool.Joined()
			overrun := tombstones < 20
			for k := 1; k <= 20; k++ {
				if g.has(k)[2] {
					t.Fatalf("%d names: it has block %d", tombstones, k)
				}
			}
			if has := g.has(99); has[2] == overrun || !has[0] || !has[1] {
				t.Errorf("%d names: nodes with the block that nobody deleted: %v", tombstones, has)
			}
			if st := g.stat(2); (st.Cleared > 0) != overrun || st.Tombstones > tombstones {
				t.Errorf("%d names: %+v", tombstones, st)
			}
		})
	}
}

// TestStateLost: a node without its state knows nothing, and learns it before it answers.
func TestStateLost(t *testing.T) {
	onGrounds(t, 7, 2, 64, func(t *testing.T, g *grounds) {
		g.everywhere(1)
		g.sites[1].stop()
		if _, ok := g.erase(0, 1); !ok {
			t.Fatal("not deleted")
		}
		if err := g.sites[1].state.RemoveAll("pool"); err != nil {
			t.Fatal(err)
		}
		g.sites[1].start()
		<-g.sites[1].running().pool.Joined()
		if n := count(g.has(1)); n != 0 {
			t.Errorf("%d nodes have it", n)
		}
		if missing, ok := g.erase(1, 3); !ok || missing != 0 {
			t.Errorf("%d have not confirmed, %v", missing, ok)
		}
	})
}

// TestJoin: the first node of a pool answers at once, others when they have merged; one
// that knows that there are others waits for them, but not for ever.
func TestJoin(t *testing.T) {
	onGrounds(t, 8, 2, 64, func(t *testing.T, g *grounds) {
		state := func(n int) member.State {
			for _, m := range g.world.Join(member.Member{ID: nodeID(50), Name: "watcher", State: member.Leaving}).Members() {
				if m.ID == nodeID(n) {
					return m.State
				}
			}
			return member.Leaving
		}
		if a, b := state(0), state(1); a != member.Active || b != member.Active {
			t.Fatalf("%v, %v", a, b)
		}
		g.apart(1, true)
		g.sites[1].kill(false)
		began := time.Now()
		g.sites[1].start()
		time.Sleep(time.Second)
		if st := g.stat(1); st.Joined || state(1) != member.Joining {
			t.Error("it answers, and has merged with nobody")
		}
		<-g.sites[1].running().pool.Joined()
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("it waited %v", took)
		}
		synctest.Wait()
		if got := state(1); got != member.Active {
			t.Error(got)
		}
		g.apart(1, false)
	})
	synctest.Test(t, func(t *testing.T) {
		g := newGrounds(t, 9, 1, 64)
		synctest.Wait()
		if st := g.stat(0); !st.Joined {
			t.Errorf("alone, and it waits: %+v", st)
		}
		g.sites[0].stop()
		g.net.Close()
	})
}

// TestDrains: that a node is to hand its blocks over outlasts its process.
func TestDrains(t *testing.T) {
	onGrounds(t, 10, 2, 64, func(t *testing.T, g *grounds) {
		if g.sites[0].running().pool.Drains() {
			t.Fatal("it drains")
		}
		if err := g.sites[0].running().pool.SetDrains(); err != nil {
			t.Fatal(err)
		}
		g.sites[0].kill(true)
		g.sites[0].start()
		if !g.sites[0].running().pool.Drains() {
			t.Error("it has forgotten to drain")
		}
	})
}

// TestForeignStore: a store that was elsewhere for a while may hold what was deleted
// meanwhile.
func TestForeignStore(t *testing.T) {
	for _, c := range []struct{ known, empty, cleared bool }{{true, false, false}, {false, true, false}, {false, false, true}} {
		onGrounds(t, 11, 1, 64, func(t *testing.T, g *grounds) {
			s := g.sites[0]
			if _, ok := g.erase(0, 1); !ok {
				t.Fatal("not deleted")
			}
			g.everywhere(2)
			s.stop()
			s.stores = []pool.StoreFact{{ID: [16]byte{1}}}
			s.start()
			s.stop()
			if !c.known {
				s.stores = append(s.stores, pool.StoreFact{ID: [16]byte{2}, Empty: c.empty})
			}
			s.start()
			if has := g.has(2)[0]; has == c.cleared {
				t.Errorf("%+v: the block is there: %v", c, has)
			}
		})
	}
}

// TestEraseWhenStateFails: what cannot be remembered is not erased elsewhere, and told: to
// who erases, to the others, and once to the operator, with the cause.
func TestEraseWhenStateFails(t *testing.T) {
	onGrounds(t, 12, 2, 64, func(t *testing.T, g *grounds) {
		p := g.sites[0].running()
		p.pool.FailState(errors.New("no space"))
		ids := g.sites[0].ids(1)
		if _, err := p.pool.Delete(context.Background(), p.shelf, 1, ids); err == nil {
			t.Error("a deletion that nobody remembers")
		}
		if _, err := p.pool.Drop(context.Background(), p.shelf); err == nil {
			t.Error("a drop that nobody remembers")
		}
		if st := g.stat(0); st.Failed == "" {
			t.Errorf("%+v", st)
		}
		if missing, ok := g.erase(1, 2); !ok || missing != 1 {
			t.Errorf("%d have not confirmed, %v", missing, ok)
		}
		events, _ := p.journal.After(0, 100)
		events = slices.DeleteFunc(events, func(e journal.Event) bool { return e.Kind != journal.Trouble })
		if len(events) != 1 || events[0].Times != 1 || !strings.Contains(events[0].Text, "no space") {
			t.Errorf("the operator hears %+v", events)
		}
	})
}

// TestReadsBesideDelete: who asks while a deletion is on its way to the others does not
// wait for them to take it in.
func TestReadsBesideDelete(t *testing.T) {
	onGrounds(t, 13, 2, 64, func(t *testing.T, g *grounds) {
		items := []engine.PutItem{{Key: key(2), Src: [][]byte{stamped(2)}}}
		if err := g.sites[1].running().ns.Put(items, engine.PutOptions{}); err != nil || items[0].Status != engine.Stored {
			t.Fatal(err, items[0].Status)
		}
		g.sites[1].disk.SetFaults(sim.Plan{Delay: 1, DelayBy: time.Second, Filter: func(name string) bool { return name == "DELETES" }})
		deleted := make(chan int)
		go func() {
			missing, _ := g.erase(0, 1)
			deleted <- missing
		}()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if number := g.readPlain(0, 2); number != 2 || time.Since(began) > 500*time.Millisecond {
			t.Errorf("read %d after %v", number, time.Since(began))
		}
		if st := g.stat(1); st.Behind != 0 {
			t.Errorf("%+v", st)
		}
		if missing := <-deleted; missing != 0 || time.Since(began) < 500*time.Millisecond {
			t.Errorf("%d have not confirmed, after %v", missing, time.Since(began))
		}
	})
}
