package pool_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
)

// timed is how long f takes.
func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// TestFrozenPeer: a peer that stops answering costs the others a few questions of bounded
// time; then nobody waits for it. Once it is back it is used again.
func TestFrozenPeer(t *testing.T) {
	var journals []*journal.Journal
	inHall(t, 1, 4, func(o *pool.Options) {
		o.Journal = journal.New(nil)
		journals = append(journals, o.Journal)
	}, func(h *hall) {
		h.put(1, span(0, 10)...)
		h.put(2, span(10, 20)...)
		h.get(0, pool.GetOptions{}, span(0, 20)...).want(engine.Hit)
		h.net.Freeze(h.nodes[1].address)
		match := func() (res pool.MatchResult, took time.Duration) {
			took = timed(func() {
				res = h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(1, 11, 99), pool.MatchOptions{})
			})
			synctest.Wait() // judged
			return res, took
		}
		for range 3 {
			res, took := match()
			if res.Silent != 1 || took != 50*time.Millisecond || !slices.Equal(h.names(0, res.At[1]), []int{2}) {
				t.Errorf("with a frozen peer: %+v after %v", res, took)
			}
		}
		for range 10 {
			if res, took := match(); res.Asked != 2 || res.Silent != 0 || took > time.Millisecond {
				t.Errorf("with its breaker open: %+v after %v", res, took)
			}
		}
		l := h.get(0, pool.GetOptions{}, 5, 15)
		if l.items[0].Status != engine.Miss || l.items[1].Status != engine.Hit || l.took > 2*time.Millisecond {
			t.Errorf("%v and %v after %v", l.items[0].Status, l.items[1].Status, l.took)
		}
		if st := h.peer(0, 1); st.Breaker == "closed" || st.Opened != 1 || st.Usable || st.MatchesLate != 3 {
			t.Errorf("%+v", st)
		}
		time.Sleep(10 * time.Minute)
		if st := h.peer(0, 1); st.Breaker == "closed" || st.Probes > 200 {
			t.Errorf("after ten minutes: %+v", st)
		}
		h.net.Thaw(h.nodes[1].address)
		h.wantBack(1)
		var told []journal.Kind
		events, _ := journals[0].After(0, journal.EventsMax)
		for _, e := range events {
			if e.Node == h.peer(0, 1).Name && (e.Kind == journal.Broken || e.Kind == journal.Mended) && e.Times == 1 {
				told = append(told, e.Kind)
			}
		}
		if !slices.Equal(told, []journal.Kind{journal.Broken, journal.Mended}) {
			t.Errorf("%v of %+v", told, events)
		}
	})
}

// wantBack wants node 0 to use another, which has block 5, again within half a minute.
func (h *hall) wantBack(node int) {
	h.t.Helper()
	began := time.Now()
	for !h.peer(0, node).Usable {
		if time.Since(began) > 30*time.Second {
			h.t.Fatalf("not used again in half a minute: %+v", h.peer(0, node))
		}
		time.Sleep(100 * time.Millisecond)
	}
	h.get(0, pool.GetOptions{}, 5).want(engine.Hit)
}

// TestShortPatience: where nobody ever waits for as long as a frozen peer would be given,
// it is found out all the same.
func TestShortPatience(t *testing.T) {
	inHall(t, 2, 3, nil, func(h *hall) {
		h.put(1, span(0, 10)...)
		h.get(0, pool.GetOptions{}, span(0, 10)...).want(engine.Hit)
		h.net.Freeze(h.nodes[1].address)
		n := 0
		for h.peer(0, 1).Usable {
			if n++; n > 1000 {
				t.Fatalf("%+v", h.peer(0, 1))
			}
			l := h.get(0, pool.GetOptions{Deadline: time.Now().Add(5 * time.Millisecond)}, 3)
			if l.items[0].Status == engine.Miss && !h.peer(0, 1).Usable { // just now
				break
			}
			if l.took > 5*time.Millisecond || l.items[0].Status != engine.Late {
				t.Fatalf("%v after %v", l.items[0].Status, l.took)
			}
		}
		h.get(0, pool.GetOptions{Deadline: time.Now().Add(5 * time.Millisecond)}, 3).want(engine.Miss)
		h.net.Thaw(h.nodes[1].address)
		h.wantBack(1)
	})
}

// TestSlowPeerStays: a peer that is merely slow for the patience of callers is no sick one.
func TestSlowPeerStays(t *testing.T) {
	inHall(t, 3, 2, nil, func(h *hall) {
		h.put(1, span(0, 10)...)
		h.get(0, pool.GetOptions{}, span(0, 10)...).want(engine.Hit)
		h.net.SetShape(h.nodes[1].address, delayed(10*time.Millisecond))
		for range 100 {
			h.get(0, pool.GetOptions{Deadline: time.Now().Add(5 * time.Millisecond)}, 3).want(engine.Late)
		}
		if st := h.peer(0, 1); !st.Usable || st.Opened != 0 || st.Failures != 0 || st.Late != 100 || st.Probes == 0 || st.Probes > 20 {
			t.Errorf("%+v", st)
		}
	})
}

// TestDeadPeer: a peer whose process or machine died, or that the network hides, or that
// the membership suspects, is skipped at once, and used again when it is back.
func TestDeadPeer(t *testing.T) {
	for name, c := range map[string]struct{ hurt, heal func(h *hall) }{
		"killed":   {func(h *hall) { h.net.Kill(h.nodes[1].address) }, nil},
		"vanished": {func(h *hall) { h.net.Vanish(h.nodes[1].address) }, nil},
		"cut off": {
			func(h *hall) { h.net.Cut(h.nodes[0].address, h.nodes[1].address) },
			func(h *hall) { h.net.Heal(h.nodes[0].address, h.nodes[1].address) }},
		"cannot answer": {
			func(h *hall) { h.net.Cut(h.nodes[1].address, h.nodes[0].address) },
			func(h *hall) { h.net.Heal(h.nodes[1].address, h.nodes[0].address) }},
		"suspect": {
			func(h *hall) { h.world.See(h.nodes[0].id, h.nodes[1].id, membertest.Suspect) },
			func(h *hall) { h.world.See(h.nodes[0].id, h.nodes[1].id, membertest.True) }},
		"not seen": {
			func(h *hall) { h.world.See(h.nodes[0].id, h.nodes[1].id, membertest.Absent) },
			func(h *hall) { h.world.See(h.nodes[0].id, h.nodes[1].id, membertest.True) }},
	} {
		t.Run(name, func(t *testing.T) {
			inHall(t, 4, 3, nil, func(h *hall) {
				h.put(1, span(0, 10)...)
				h.put(2, span(10, 20)...)
				h.get(0, pool.GetOptions{}, span(0, 20)...).want(engine.Hit)
				c.hurt(h)
				for range 4 {
					h.get(0, pool.GetOptions{Deadline: time.Now().Add(time.Second)}, 15, 16).want(engine.Hit)
					time.Sleep(time.Second)
					h.get(0, pool.GetOptions{Deadline: time.Now().Add(time.Second)}, 5)
				}
				took := timed(func() { h.get(0, pool.GetOptions{}, 5, 6).want(engine.Miss) })
				if took > 2*time.Millisecond {
					t.Errorf("a block of a node that is not there took %v", took)
				}
				if c.heal == nil { // started anew
					h.nodes[1].close(t)
					h.nodes[1] = h.open(1, 99, nil)
					h.put(1, span(0, 10)...)
				} else {
					c.heal(h)
				}
				h.wantBack(1)
			})
		})
	}
}

// TestMembers: who joins is used, who leaves is not, and the statistics still tell of it;
// neither joining nor leaving nodes are asked for blocks, draining ones are.
func TestMembers(t *testing.T) {
	inHall(t, 5, 3, nil, func(h *hall) {
		h.put(1, 5)
		view := h.world.Join(member.Member{ID: h.nodes[1].id, Name: "node-1", Address: h.nodes[1].address, State: member.Joining})
		for _, c := range []struct {
			state member.State
			found bool
		}{{member.Joining, false}, {member.Active, true}, {member.Leaving, false}, {member.Draining, true}} {
			view.Announce(c.state, 1<<30, 1<<20)
			time.Sleep(time.Second)
			at := h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(5), pool.MatchOptions{}).At[0]
			if at.Known() != c.found {
				t.Errorf("a node that is %v: %v", c.state, h.names(0, at))
			}
		}
		if st := h.peer(0, 1); st.CapacityBytes != 1<<30 || st.FreeBytes != 1<<20 || st.State != "draining" || !st.Member {
			t.Errorf("%+v", st)
		}
		h.world.Part(h.nodes[1].id)
		time.Sleep(time.Second)
		if st := h.peer(0, 1); st.Member || st.Usable || len(h.nodes[0].pool.Stat().Peers) != 2 {
			t.Errorf("%+v", st)
		}
		h.get(0, pool.GetOptions{}, 5).want(engine.Miss)
		h.world.Join(member.Member{ID: h.nodes[1].id, Name: "node-1", Address: h.nodes[1].address, State: member.Active})
		time.Sleep(time.Second)
		h.get(0, pool.GetOptions{}, 5).want(engine.Hit)
		if n := len(h.nodes[0].pool.Stat().Peers); n != 2 {
			t.Errorf("%d peers", n)
		}
	})
}

// TestForeign: a node of another pool is turned away, and so is one that answers at the
// address of another; the statistics say why.
func TestForeign(t *testing.T) {
	strange := func(o *pool.Options) {
		if o.Name == "node-2" {
			o.PoolID = "other"
		}
	}
	inHall(t, 6, 3, strange, func(h *hall) {
		h.put(1, 5)
		h.put(2, 6)
		l := h.get(0, pool.GetOptions{}, 5, 6)
		if l.items[0].Status != engine.Hit || l.items[1].Status != engine.Miss {
			t.Errorf("%v, %v", l.items[0].Status, l.items[1].Status)
		}
		if st := h.peer(0, 2); st.Link != "down" || !strings.Contains(st.Cause, "pool") {
			t.Errorf("%+v", st)
		}
		h.world.Join(member.Member{ID: nodeID(9), Name: "node-9", Address: h.nodes[1].address, State: member.Active})
		time.Sleep(time.Second)
		for _, p := range h.nodes[0].pool.Stat().Peers {
			if p.Name == "node-9" && (p.Link != "down" || !strings.Contains(p.Cause, h.nodes[1].id.String())) {
				t.Errorf("%+v", p)
			}
		}
	})
}
