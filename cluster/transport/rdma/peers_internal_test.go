package rdma

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// numbered is a node of any number.
func numbered(i int) transport.Hello {
	h := helloOf(0)
	h.Node = member.ID{byte(i), byte(i >> 8), byte(i >> 16), 1}
	return h
}

// TestPeersBound has random nodes come and go, under very many names: those that have a link
// or a session are kept, of the others a bounded number: those that were dialled, then the latest.
func TestPeersBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := &Transport{peers: map[member.ID]*peer{}}
		users := map[int][]*peer{}
		var recent []int // strangers that were left, the latest last
		for i := range 40 {
			p := x.enter(numbered(i).Node, true)
			p.blocks.Add(uint64(100 + i))
			x.leave(p)
		}
		for range 20 * peersMax {
			i := 100 + rng.IntN(5*peersMax)
			if n := len(users[i]); n > 0 && rng.IntN(3) > 0 {
				x.leave(users[i][n-1])
				if users[i] = users[i][:n-1]; n == 1 {
					delete(users, i)
					recent = append(recent, i)
				}
			} else if len(users) < 50 || n > 0 {
				p := x.enter(numbered(i).Node, false)
				if n > 0 && p != users[i][0] {
					t.Fatalf("seed %d: node %d, which has users, was forgotten", seed, i)
				}
				users[i] = append(users[i], p)
			} else {
				k := slices.Min(slices.Collect(maps.Keys(users)))
				for _, p := range users[k] {
					x.leave(p)
				}
				delete(users, k)
				recent = append(recent, k)
			}
			if n := len(x.peers); n > peersMax+len(users) {
				t.Fatalf("seed %d: %d nodes are known, %d have users", seed, n, len(users))
			}
		}
		for i := range 40 {
			if p := x.peers[numbered(i).Node]; p == nil || p.blocks.Load() != uint64(100+i) {
				t.Errorf("seed %d: a node that was dialled is forgotten", seed)
			}
		}
		for _, i := range recent[len(recent)-peersMax/2:] {
			if x.peers[numbered(i).Node] == nil {
				t.Errorf("seed %d: node %d was left of late, and is forgotten", seed, i)
			}
		}
	}
	// Those that were dialled are bounded as well.
	x := &Transport{peers: map[member.ID]*peer{}}
	for i := range 3 * peersMax {
		x.leave(x.enter(numbered(i).Node, true))
	}
	if len(x.peers) != peersMax || x.peers[numbered(2*peersMax).Node] == nil || x.peers[numbered(2*peersMax-1).Node] != nil {
		t.Errorf("%d nodes are known", len(x.peers))
	}
}

// TestPeersLeft: when all links and sessions are over nobody is a user of a peer, however they
// have ended.
func TestPeersLeft(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		r.on(r.lending(&lender{T: r.T}, 10))
		held := r.caller(1)
		held.up()
		ask := r.caller(1)
		m := ask.request()
		for range peerGuestsMax + 2 { // some are refused
			_, _ = r.t.serving.open(r.Context(), helloOf(ask.id), m.append(nil))
		}
		wrong := m
		wrong.rails = append([]callerRail(nil), m.rails...)
		wrong.rails[0].end.Ethernet = false // no port for it
		if _, err := r.t.serving.open(r.Context(), numbered(5), wrong.append(nil)); err == nil {
			r.Error("a session without a rail")
		}
		synctest.Wait()
		if n := r.t.peers[helloOf(ask.id).Node].users; n != peerGuestsMax {
			r.Errorf("%d users, want %d", n, peerGuestsMax)
		}
		held.end()
		ask.end()
		r.t.serving.close()
		for id, p := range r.t.peers {
			if p.users != 0 {
				r.Errorf("%d users of %v are left", p.users, id)
			}
		}
	})
	script(t, 1, nil, func(d *duo) {
		d.up()
		p := d.l.peer
		if p.users != 1 || !p.known.Load() {
			d.Errorf("%d users of a node with a link", p.users)
		}
		must(d, d.l.Close())
		must(d, d.caller.Close())
		if _, err := d.caller.Dial(d.Context(), "b", helloOf(1)); err == nil {
			d.Error("a closed transport dials")
		}
		if p.users != 0 {
			d.Errorf("%d users are left", p.users)
		}
	})
}

// TestStrangers has nodes that this one has never dialled hold as many sessions as they can:
// there is room for those that it has, and a flood of sessions that nobody holds ends none of
// theirs before it is held.
func TestStrangers(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		ask := r.caller(1)
		defer ask.end()
		m := ask.request()
		open := func(from transport.Hello, hold bool) error {
			answer, err := r.t.serving.open(r.Context(), from, m.append(nil))
			if err != nil {
				return err
			}
			opened, err := parseOpened(answer, 1)
			r.must(err)
			if hold {
				g, err := r.t.serving.find(opened.session, from)
				r.must(err)
				r.must(g.hold())
			}
			return nil
		}
		for i := range strangersMax {
			r.must(open(numbered(i), true))
		}
		codeOf(r.T, "one stranger more", open(numbered(strangersMax), true), transport.CodeBusy)
		r.t.leave(r.t.enter(numbered(0).Node, true)) // it has come before it was dialled
		r.must(open(numbered(strangersMax), true))
		members := guestsMax - strangersMax - 2
		for i := range members {
			from := numbered(10_000 + i)
			r.t.leave(r.t.enter(from.Node, true)) // it was dialled
			r.must(open(from, true))
		}
		c := r.caller(1)
		defer c.end()
		r.t.leave(r.t.enter(helloOf(c.id).Node, true))
		c.open()
		codeOf(r.T, "a stranger more than all", open(numbered(strangersMax), true), transport.CodeBusy)
		c.hold()
		c.rails[0].receive(r.T)
		synctest.Wait()
		if isOver(c) {
			r.Error("the session of a member has ended")
		}
	})
	serve(t, 1, Options{}, func(r *rig) {
		c, ask := r.caller(1), r.caller(1)
		defer c.end()
		defer ask.end()
		r.t.leave(r.t.enter(helloOf(c.id).Node, true))
		c.open()
		m := ask.request()
		for i := range 2 * waitingMax {
			_, err := r.t.serving.open(r.Context(), numbered(i), m.append(nil))
			r.must(err)
			synctest.Wait()
		}
		c.hold()
		c.rails[0].receive(r.T)
		if isOver(c) {
			r.Error("the session of a member has ended")
		}
	})
}
