package pool_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
)

// TestMatchAndGet: blocks that lie on four nodes are found by one question, and loaded from
// where they are; the second time nobody is asked where.
func TestMatchAndGet(t *testing.T) {
	inHall(t, 1, 5, nil, func(h *hall) {
		for n := 1; n < 5; n++ {
			h.put(n, span(100*n, 100*n+20)...)
		}
		h.put(4, 100)
		p := h.nodes[0].pool
		res := p.Match(h.nodes[0].of(), h.nodes[0].ids(100, 219, 300, 5, 419), pool.MatchOptions{})
		if res.Asked != 4 || res.Silent != 0 || res.Release != nil {
			t.Errorf("%+v", res)
		}
		for i, want := range [][]int{{1, 4}, {2}, {3}, nil, {4}} {
			if got := h.names(0, res.At[i]); !slices.Equal(got, want) {
				t.Errorf("block %d of the match is at %v, want %v", i, got, want)
			}
		}
		all := slices.Concat(span(100, 120), span(200, 220), span(300, 320), span(400, 420))
		l := h.get(0, pool.GetOptions{}, all...)
		l.want(engine.Hit)
		for i, n := range all {
			if from := l.from(i); from != n/100 && n != 100 {
				t.Errorf("block %d came from %d", n, from)
			}
		}
		before := p.Stat().Matches
		h.get(0, pool.GetOptions{}, all...).want(engine.Hit)
		if st := p.Stat(); st.Matches != before || st.Hints != len(all) {
			t.Errorf("%d matches for blocks whose places are known, %d hints", st.Matches-before, st.Hints)
		}
		h.get(0, pool.GetOptions{}, 7, 8).want(engine.Miss)
		h.get(0, pool.GetOptions{}).wantReleased()
		if st := h.peer(0, 2); st.Hits != 40 || st.ReadBytes != 40*blockBytes || st.Link != "up" || st.Breaker != "closed" || !st.Usable || st.Failures != 0 || st.P50NS == 0 {
			t.Errorf("%+v", st)
		}
		if st := h.peer(2, 0); st.ServedBlocks != 40 {
			t.Errorf("%+v", st)
		}
	})
}

// TestStaleHint: a remembered place that is wrong costs a question, not the block; and a
// block that is nowhere any more is a miss.
func TestStaleHint(t *testing.T) {
	inHall(t, 2, 4, nil, func(h *hall) {
		h.put(1, 1, 2, 3)
		h.get(0, pool.GetOptions{}, 1, 2, 3).want(engine.Hit)
		if err := h.nodes[1].Delete(h.nodes[1].ids(1, 2)); err != nil {
			t.Fatal(err)
		}
		h.put(3, 1)
		l := h.get(0, pool.GetOptions{}, 1, 2, 3)
		if l.items[0].Status != engine.Hit || l.from(0) != 3 || l.items[1].Status != engine.Miss || l.items[2].Status != engine.Hit {
			t.Errorf("%v from %d, %v, %v", l.items[0].Status, l.from(0), l.items[1].Status, l.items[2].Status)
		}
		if st := h.peer(0, 1); st.StaleHints != 2 || st.Misses != 2 {
			t.Errorf("%+v", st)
		}
		before := h.nodes[0].pool.Stat().Matches
		if l := h.get(0, pool.GetOptions{}, 1); l.from(0) != 3 || h.nodes[0].pool.Stat().Matches != before {
			t.Error("the right place is not remembered")
		}
	})
}

// TestDamaged: bytes that change on the way are a miss, whichever way they came.
func TestDamaged(t *testing.T) {
	for _, bounce := range []bool{false, true} {
		inHall(t, 3, 3, nil, func(h *hall) {
			h.put(1, span(0, 8)...)
			h.net.SetPayload(payload(1))
			l := h.get(0, pool.GetOptions{Bounce: bounce}, span(0, 8)...)
			l.want(engine.Miss)
			if st := h.peer(0, 1); st.Wrong != 8 || st.Hits != 0 || l.items[0].Err == nil {
				t.Errorf("%+v, %v", st, l.items[0].Err)
			}
			h.net.SetPayload(payload(0))
			h.get(0, pool.GetOptions{Bounce: bounce}, span(0, 8)...).want(engine.Hit)
		})
	}
}

// TestDeadline: a load in the middle of which the deadline comes is late, its memory is
// not touched after its release, and there is one release of each block.
func TestDeadline(t *testing.T) {
	late := 0
	for seed := range uint64(8) {
		inHall(t, seed, 3, nil, func(h *hall) {
			h.put(1, span(0, 16)...)
			h.get(0, pool.GetOptions{}, 0).want(engine.Hit) // linked, and 0 remembered
			h.net.SetShape(h.nodes[1].address, slow(1<<20)) // a block takes 4 ms
			for _, o := range []pool.GetOptions{
				{Deadline: time.Now().Add(20 * time.Millisecond)},
				{Done: closedIn(20 * time.Millisecond)},
				{Deadline: time.Now().Add(60 * time.Millisecond), Bounce: true},
				{Deadline: time.Now()},
			} {
				l := h.get(0, o, span(0, 16)...)
				if l.took > 60*time.Millisecond {
					t.Errorf("%v after a deadline of 20 or 60", l.took)
				}
				if o.Bounce {
					l.wantReleased()
				}
				l.watch()
				l.wantReleased()
				for i := range l.items {
					switch l.items[i].Status {
					case engine.Late:
						late++
					case engine.Hit:
					default:
						t.Errorf("block %d is %v", i, l.items[i].Status)
					}
				}
			}
		})
	}
	if late < 100 {
		t.Errorf("only %d late blocks: nothing was tried", late)
	}
}

// TestDeadlineDuringDrop: a read that meets a drop which this node has not heard of ends at
// its deadline, however long the drives take for that drop.
func TestDeadlineDuringDrop(t *testing.T) {
	inHall(t, 31, 2, nil, func(h *hall) {
		h.put(1, 0)
		h.get(0, pool.GetOptions{}, 0).want(engine.Hit)
		ctx, cancel := context.WithCancel(context.Background())
		h.nodes[1].raising = cancel // nobody is told
		if missing, err := h.nodes[1].pool.Drop(ctx, h.nodes[1].shelf); missing != 1 || err != nil {
			t.Fatalf("%d were not told, %v", missing, err)
		}
		var raises atomic.Int32
		h.nodes[0].raising = func() {
			raises.Add(1)
			time.Sleep(2 * time.Second)
		}
		l := h.get(0, pool.GetOptions{Deadline: time.Now().Add(100 * time.Millisecond)}, 0)
		l.want(engine.Late)
		l.wantReleased()
		if l.took > 110*time.Millisecond || h.nodes[0].Incarnation() != 1 {
			t.Errorf("it took %v, and the drop was over", l.took)
		}
		time.Sleep(3 * time.Second)
		if raises.Load() == 0 || h.nodes[0].Incarnation() != 2 {
			t.Errorf("%d raises, incarnation %d", raises.Load(), h.nodes[0].Incarnation())
		}
	})
}

// TestLease: what is found stays, and goes when it is released; a lease that comes too late
// for its match is given back.
func TestLease(t *testing.T) {
	inHall(t, 4, 3, nil, func(h *hall) {
		h.put(1, 1, 2)
		h.put(2, 2, 3)
		leased := func(node int) int { return h.nodes[node].store.Stat().LeasedBlocks }
		of, ids := h.nodes[0].of(), h.nodes[0].ids(1, 2, 3)
		res := h.nodes[0].pool.Match(of, ids, pool.MatchOptions{Lease: time.Minute})
		if res.Leased != 4 || leased(1) != 2 || leased(2) != 2 || h.nodes[1].pool.Stat().Lent != 1 {
			t.Errorf("%d leased: %d and %d", res.Leased, leased(1), leased(2))
		}
		res.Release()
		res.Release()
		time.Sleep(time.Millisecond)
		if leased(1)+leased(2) != 0 {
			t.Error("the leases stand after their release")
		}
		h.net.SetShape(h.nodes[2].address, delayed(20*time.Millisecond))
		done := closedIn(10 * time.Millisecond)
		res = h.nodes[0].pool.Match(of, ids, pool.MatchOptions{Lease: time.Minute, Done: done})
		if res.Silent != 1 || res.Leased != 2 {
			t.Errorf("%+v", res)
		}
		time.Sleep(35 * time.Millisecond)
		if leased(2) != 2 {
			t.Error("the slow node has not leased")
		}
		time.Sleep(40 * time.Millisecond)
		if leased(2) != 0 {
			t.Error("a lease that nobody knows of stands")
		}
		if at := h.nodes[0].pool.Find(of, h.nodes[0].ids(3), nil); !slices.Equal(h.names(0, at[0]), []int{2}) {
			t.Error("what came late is not remembered")
		}
		res.Release()
		time.Sleep(time.Second)
	})
}

// TestTouch: a touch makes blocks young where they are remembered to be.
func TestTouch(t *testing.T) {
	inHall(t, 5, 3, nil, func(h *hall) {
		h.put(1, 1, 2, 4)
		time.Sleep(time.Minute)
		of := h.nodes[0].of()
		if n := h.nodes[0].pool.Touch(of, h.nodes[0].ids(1, 2)); n != 0 {
			t.Errorf("%d touched of what nobody knows", n)
		}
		h.nodes[0].pool.Match(of, h.nodes[0].ids(1, 2, 4), pool.MatchOptions{})
		if n := h.nodes[0].pool.Touch(of, h.nodes[0].ids(1, 2, 3)); n != 2 {
			t.Errorf("%d touched, want 2", n)
		}
		time.Sleep(time.Second) // the listing lags
		touched := 0
		if err := h.nodes[1].Scan(pool.Cursor{}, func(_ pool.Cursor, e engine.Entry) bool {
			if e.Idle < 2*time.Second {
				touched++
			}
			return true
		}); err != nil || touched != 2 {
			t.Errorf("%d of 2 blocks are young: %v", touched, err)
		}
	})
}
