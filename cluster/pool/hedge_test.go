package pool_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
)

// TestHedge: where the first copy is slow the second is asked, and whichever wins, the
// block is one node's, whole: the two have different bytes of it. Nothing is written to a
// destination after its answer.
func TestHedge(t *testing.T) {
	var won, hedged, late uint64
	froms := map[int]int{}
	for seed := range uint64(10) {
		inHall(t, seed, 3, nil, func(h *hall) {
			all := span(0, 12)
			h.put(1, all...)
			h.put(2, all...)
			h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(all...), pool.MatchOptions{})
			for range 30 {
				h.get(0, pool.GetOptions{}, all...).want(engine.Hit)
			}
			// A block takes 2 ms from one of the two, and the other is in haste.
			h.net.SetShape(h.nodes[1+seed%2].address, slow(2<<20))
			for n := range 12 {
				o := pool.GetOptions{Bounce: n%3 == 0}
				if n%4 == 0 {
					o.Deadline = time.Now().Add(time.Duration(n) * time.Millisecond)
				}
				l := h.get(0, o, all...)
				for i := range l.items {
					switch l.items[i].Status {
					case engine.Hit:
						froms[l.from(i)]++
					case engine.Late:
						late++
					default:
						t.Errorf("seed %d: block %d is %v: %v", seed, i, l.items[i].Status, l.items[i].Err)
					}
				}
				l.watch()
				l.wantReleased()
			}
			for _, n := range []int{1, 2} {
				st := h.peer(0, n)
				won, hedged = won+st.HedgesWon, hedged+st.Hedged
			}
		})
	}
	t.Logf("%d hedged, %d won, %d late, from %v", hedged, won, late, froms)
	if won < 50 || hedged < won || late == 0 || froms[1] == 0 || froms[2] == 0 {
		t.Errorf("%d hedged, %d won, %d late, from %v", hedged, won, late, froms)
	}
}

// TestNoHedge: without an allowance nobody is asked twice, however slow.
func TestNoHedge(t *testing.T) {
	inHall(t, 7, 3, func(o *pool.Options) { o.HedgePercent = -1 }, func(h *hall) {
		all := span(0, 16)
		h.put(1, all...)
		h.put(2, all...)
		h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(all...), pool.MatchOptions{})
		h.net.SetShape(h.nodes[1].address, delayed(150*time.Millisecond))
		for range 20 {
			h.get(0, pool.GetOptions{}, all...).want(engine.Hit)
		}
		if hedged := h.peer(0, 1).Hedged; hedged != 0 {
			t.Errorf("%d blocks were hedged", hedged)
		}
	})
}

// TestSecondCopy: where the node that was asked does not give a block, for whatever reason,
// the other copy is asked for, without a question to all.
func TestSecondCopy(t *testing.T) {
	inHall(t, 8, 3, nil, func(h *hall) {
		all := span(0, 12)
		h.put(1, all...)
		h.put(2, all...)
		h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(all...), pool.MatchOptions{})
		before := h.nodes[0].pool.Stat().Matches
		if err := h.nodes[1].Delete(h.nodes[1].ids(all[:6]...)); err != nil {
			t.Fatal(err)
		}
		h.get(0, pool.GetOptions{}, all...).want(engine.Hit)
		h.net.Kill(h.nodes[2].address)
		l := h.get(0, pool.GetOptions{}, all[6:]...)
		l.want(engine.Hit)
		for i := range l.items {
			if l.from(i) != 1 {
				t.Errorf("block %d is of node %d", i, l.from(i))
			}
		}
		if m := h.nodes[0].pool.Stat().Matches; m != before {
			t.Errorf("%d questions to all", m-before)
		}
	})
}
