package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// TestPutRuns: the blocks of a put are stored once, 64 that follow each other together;
// many puts use all nodes; what was put is found and read from everywhere.
func TestPutRuns(t *testing.T) {
	inYard(t, 1, 5, nil, func(h *hall) {
		chain := span(0, 200)
		h.store(0, chain...).want(engine.Stored)
		h.wantHomes(1, chain...)
		for at := 0; at < len(chain); at += 64 {
			home := h.homesOf(at)
			for _, n := range chain[at:min(at+64, len(chain))] {
				if !slices.Equal(h.homesOf(n), home) {
					t.Errorf("block %d is on %v, its run on %v", n, h.homesOf(n), home)
				}
			}
		}
		blocks := make([]int, len(h.nodes))
		for n := range 60 {
			chain := span(1000*n+1000, 1000*n+1010)
			h.store(n%5, chain...).want(engine.Stored)
			blocks[h.homesOf(chain[0])[0]]++
		}
		if slices.Min(blocks) < 3 {
			t.Errorf("runs on each node: %v", blocks)
		}
		st := h.nodes[0].pool.Stat().Puts
		if st.Requests != 13 || st.Runs != 4+12 || st.Blocks != 200+120 || st.Stored != st.Blocks || st.Present+st.Late+st.Dropped+st.Rehomed+st.Returned+st.CopiesMissing != 0 {
			t.Errorf("%+v", st)
		}
		stored, taken := uint64(0), uint64(0)
		for _, p := range h.nodes[0].pool.Stat().Peers {
			stored += p.Stored
			if p.WrittenBytes != p.Stored*blockBytes || p.PutQueueBytes != 0 {
				t.Errorf("%+v", p)
			}
		}
		for i := 1; i < 5; i++ {
			taken += h.peer(i, 0).TakenBlocks
		}
		if stored != taken || stored == 0 {
			t.Errorf("node 0 has %d blocks stored by others, who stored %d", stored, taken)
		}
	})
}

// TestPutContinues: what follows a chain that is elsewhere is found with it, by one more
// put with what is known offered only.
func TestPutContinues(t *testing.T) {
	inYard(t, 2, 4, nil, func(h *hall) {
		h.store(0, span(0, 10)...).want(engine.Stored)
		s := h.store(0, span(0, 20)...)
		for i := range s.Items {
			// What was stored on node 0 itself the node would have found before.
			if want := engine.Present; i < 10 && s.Items[i].Status != want || i >= 10 && s.Items[i].Status != engine.Stored {
				t.Errorf("block %d: %v", i, s.Items[i].Status)
			}
		}
		h.wantHomes(1, span(0, 20)...)
	})
}

// TestPutWithHints: what is remembered to be elsewhere is offered there and not sent
// again, wherever its home would be; where the memory is wrong it is stored anew.
func TestPutWithHints(t *testing.T) {
	inYard(t, 3, 5, nil, func(h *hall) {
		h.put(3, span(0, 50)...) // no home of all of them
		h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(span(0, 50)...), pool.MatchOptions{})
		if err := h.nodes[3].Delete(h.nodes[3].ids(span(40, 50)...)); err != nil {
			t.Fatal(err)
		}
		s := h.store(0, span(0, 60)...)
		for i := range s.Items {
			if want := map[bool]engine.Status{true: engine.Present, false: engine.Stored}[i < 40]; s.Items[i].Status != want {
				t.Errorf("block %d: %v, want %v", i, s.Items[i].Status, want)
			}
		}
		h.wantHomes(1, span(0, 60)...)
		if p := h.peer(0, 3); p.Present != 40 {
			t.Errorf("%+v", p)
		}
	})
}

// TestPutCopies: so many copies, all on different nodes and in different zones, are there
// for a put, and fewer where there are not so many nodes.
func TestPutCopies(t *testing.T) {
	for _, test := range []struct{ nodes, zones, copies int }{{5, 5, 2}, {6, 2, 2}, {6, 3, 3}, {2, 1, 3}, {1, 1, 2}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			inYard(t, 4, test.nodes, func(i int, o *pool.Options, m *member.Member) {
				o.Copies, m.Zone = test.copies, fmt.Sprint("zone", i%test.zones)
			}, func(h *hall) {
				all := span(0, 300)
				h.store(0, all...).want(engine.Stored)
				h.wantHomes(min(test.copies, test.nodes), all...)
				for _, n := range all {
					zones := map[int]bool{}
					for _, home := range h.homesOf(n) {
						zones[home%test.zones] = true
					}
					if len(zones) != min(test.copies, test.zones) {
						t.Errorf("block %d is on nodes %v, in %d zones", n, h.homesOf(n), len(zones))
					}
				}
				missing := uint64(0)
				if test.copies > test.nodes {
					missing = uint64(len(all))
				}
				if st := h.nodes[0].pool.Stat().Puts; st.CopiesMissing != missing {
					t.Errorf("%+v, want %d copies missing", st, missing)
				}
			})
		})
	}
}

// TestPutTwice: two nodes put the same chain at once, each with bytes of its own. Every
// block is there once, whole, as one of them had it; and put again it is PRESENT, without
// its bytes being sent.
func TestPutTwice(t *testing.T) {
	for seed := range seeds(20) {
		inYard(t, seed, 4, nil, func(h *hall) {
			all := span(0, 150)
			puts := []*store{h.putting(1, all...), h.putting(2, all...)}
			var both sync.WaitGroup
			for _, s := range puts {
				both.Go(func() { s.run(context.Background()) })
			}
			both.Wait()
			for i := range all {
				one, other := puts[0].Items[i].Status, puts[1].Items[i].Status
				if !(one == engine.Stored && other == engine.Present || one == engine.Present && other == engine.Stored) {
					t.Errorf("block %d: %v and %v", i, one, other)
				}
			}
			h.wantHomes(1, all...)
			carried := h.net.Counts().BlockBytes
			again := h.putting(3, all...)
			here := h.nodes[3].Present(h.nodes[3].ids(all...))
			again.run(context.Background()).want(engine.Present)
			for _, i := range again.local {
				if !here[i] {
					t.Errorf("block %d was not here, and is stored again", i)
				}
			}
			if now := h.net.Counts().BlockBytes; now != carried {
				t.Errorf("%d bytes of blocks were sent again", now-carried)
			}
		})
	}
}

// TestPutHomeDies: nodes die, or cannot be reached, while blocks are put to them; the
// blocks come to be elsewhere, on this node in the end.
func TestPutHomeDies(t *testing.T) {
	for seed := range seeds(30) {
		inYard(t, seed, 4, func(_ int, o *pool.Options, _ *member.Member) { o.PutTime = time.Second }, func(h *hall) {
			for i := 1; i < 4; i++ {
				h.net.SetShape(h.nodes[i].address, slow(4<<20)) // 64 blocks take 64 ms
			}
			s := h.putting(0, span(0, 500)...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.run(context.Background())
			}()
			time.Sleep(time.Duration(seed) * 4 * time.Millisecond)
			switch seed % 3 {
			case 0:
				h.net.Kill(h.nodes[1].address)
			case 1:
				h.net.Cut(h.nodes[0].address, h.nodes[1].address)
			case 2:
				for i := 1; i < 4; i++ {
					h.net.Kill(h.nodes[i].address)
				}
			}
			<-done
			s.want(engine.Stored)
			if s.took > 5*time.Second {
				t.Errorf("it took %v", s.took)
			}
			for _, n := range s.numbers {
				if len(h.homesOf(n)) == 0 {
					t.Errorf("block %d is nowhere", n)
				}
			}
			if st := h.nodes[0].pool.Stat().Puts; st.Rehomed == 0 && seed < 20 || st.Rehomed > 6 || seed%3 == 2 && st.Rehomed > 0 && st.Returned == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestPutAlone: a node that reaches nobody keeps what is put to it.
func TestPutAlone(t *testing.T) {
	inYard(t, 5, 3, nil, func(h *hall) {
		for i := 1; i < 3; i++ {
			h.net.Freeze(h.nodes[i].address)
		}
		s := h.store(0, span(0, 200)...).want(engine.Stored)
		if len(s.local) != 200 || s.took > 2*time.Second {
			t.Errorf("%d blocks are here, after %v", len(s.local), s.took)
		}
		h.net.HealAll()
	})
}

// TestPutLocally: with local placement blocks stay where they are put, and further copies
// go to others.
func TestPutLocally(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		inYard(t, 6, 4, func(_ int, o *pool.Options, _ *member.Member) { o.LocalPlacement, o.Copies = true, copies }, func(h *hall) {
			s := h.store(2, span(0, 100)...).want(engine.Stored)
			h.wantHomes(copies, span(0, 100)...)
			if len(s.local) != 100 || h.nodes[2].pool.Stat().Placement != "local" {
				t.Errorf("%d blocks are here", len(s.local))
			}
		})
	}
}

// TestPutActiveOnly: nodes that do not take new blocks get none: those that drain, that
// have no room, and that are suspected; if this one drains, others get its blocks.
func TestPutActiveOnly(t *testing.T) {
	inYard(t, 7, 5, func(i int, _ *pool.Options, m *member.Member) {
		if m.CapacityBytes >>= 3; i == 1 {
			m.CapacityBytes = 0
		}
	}, func(h *hall) {
		drain(t, h.nodes[0].pool)
		drain(t, h.nodes[2].pool)
		time.Sleep(time.Second)
		synctest.Wait()
		for n := range 20 {
			h.store(0, span(100*n, 100*n+10)...).want(engine.Stored)
			if homes := h.homesOf(100 * n); !slices.Equal(homes, []int{3}) && !slices.Equal(homes, []int{4}) {
				t.Errorf("blocks went to %v", homes)
			}
		}
	})
}

func drain(t *testing.T, p *pool.Pool) {
	t.Helper()
	if err := p.SetDrains(); err != nil {
		t.Fatal(err)
	}
}

// TestPutUnknownNamespace: a home that does not know the namespace is told of it, once.
func TestPutUnknownNamespace(t *testing.T) {
	inYard(t, 8, 3, nil, func(h *hall) {
		for i := 1; i < 3; i++ {
			h.nodes[i].unopened.Store(true)
		}
		h.store(0, span(0, 1000)...).want(engine.Stored)
		h.store(0, span(1000, 2000)...).want(engine.Stored)
		h.wantHomes(1, span(0, 2000)...)
		for i := 1; i < 3; i++ {
			if p := h.peer(0, i); p.Described != 1 || p.Stored == 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestPutFacts: what the chain is arrives with the blocks, tail first, in calls of bounded
// size.
func TestPutFacts(t *testing.T) {
	inYard(t, 9, 2, func(i int, _ *pool.Options, m *member.Member) {
		if i == 0 {
			m.CapacityBytes = 0 // all go to node 1
		}
	}, func(h *hall) {
		h.put(1, 5000) // so that there are free slots
		var arrivals []*pool.Arrival
		h.nodes[1].arrived = func(a *pool.Arrival) { arrivals = append(arrivals, a) }
		s := h.putting(0, span(0, 30)...)
		s.Options = engine.PutOptions{Durability: engine.Durable, DropIfBusy: true, Partial: true, After: key(999), EndDepth: 29}
		s.run(context.Background()).want(engine.Stored)
		if len(arrivals) != 1 {
			t.Fatalf("%d arrivals", len(arrivals))
		}
		a, o := arrivals[0], arrivals[0].Options
		if len(a.Items) != 30 || !a.Moved || a.Incarnation != h.nodes[0].Incarnation() {
			t.Errorf("%d items, moved %t, incarnation %d", len(a.Items), a.Moved, a.Incarnation)
		}
		if o.Durability != engine.Durable || !o.DropIfBusy || !o.Partial || string(o.After.Bytes) != "key 999" || len(o.Before.Bytes) != 0 || o.EndDepth != 29 || o.SpanOn || o.Deadline.IsZero() {
			t.Errorf("%+v", o)
		}
		for i, item := range a.Items {
			if int(item.Depth) != i || item.Span != 1 || item.Importance != 2 || string(item.Key.Bytes) != fmt.Sprint("key ", i) {
				t.Errorf("item %d: %+v", i, item)
			}
		}
	})
}

// TestPutParts: a run that is too large for one call comes in several, tail first as far as
// two at once allow, and each says what stands behind it.
func TestPutParts(t *testing.T) {
	inYard(t, 12, 2, func(i int, _ *pool.Options, m *member.Member) {
		if i == 0 {
			m.CapacityBytes = 0
		}
	}, func(h *hall) {
		h.nodes[0].pool.SetPushBytes(10*blockBytes + 1)
		var mu sync.Mutex
		begins := map[int]*pool.Arrival{}
		var order []int
		h.nodes[1].arrived = func(a *pool.Arrival) {
			mu.Lock()
			defer mu.Unlock()
			begins[int(a.Items[0].Depth)] = a
			order = append(order, int(a.Items[0].Depth))
		}
		s := h.putting(0, span(0, 95)...)
		s.Options.Partial, s.Options.After = true, key(999)
		s.run(context.Background()).want(engine.Stored)
		h.wantHomes(1, s.numbers...)
		if len(order) != 10 {
			t.Fatalf("parts begin at %v", order)
		}
		for i, depth := range order {
			if late := (9-i)*10 - depth; late < -10 || late > 10 {
				t.Errorf("parts begin at %v", order)
			}
			a := begins[depth]
			before, after := string(a.Options.Before.Bytes), string(a.Options.After.Bytes)
			if last := depth == 90; last != a.Options.Partial || last == a.Options.SpanOn || !last && before != fmt.Sprint("key ", depth+10) || last && before != "" {
				t.Errorf("the part from %d on has %d blocks, %+v", depth, len(a.Items), a.Options)
			}
			if (depth == 0) != (after == "key 999") || a.Options.EndDepth != 94 {
				t.Errorf("the part from %d on: %+v", depth, a.Options)
			}
		}
	})
}

// TestPutManySmall: more small blocks for a peer than one call may carry go in several.
func TestPutManySmall(t *testing.T) {
	inYard(t, 14, 2, func(i int, _ *pool.Options, m *member.Member) {
		if i == 0 {
			m.CapacityBytes = 0
		}
	}, func(h *hall) {
		calls := 0
		var mu sync.Mutex
		h.nodes[1].arrived = func(*pool.Arrival) {
			mu.Lock()
			defer mu.Unlock()
			calls++
		}
		s := h.putting(0, span(0, peer.PutBlocksMax+100)...)
		s.run(context.Background()).want(engine.Stored)
		h.wantHomes(1, s.numbers...)
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestPutQueue: what would wait for a peer beyond the bound is dropped at once, and says why.
func TestPutQueue(t *testing.T) {
	inYard(t, 10, 2, func(i int, o *pool.Options, m *member.Member) {
		if o.PutQueueBytes = 100 * blockBytes; i == 0 {
			m.CapacityBytes = 0
		}
	}, func(h *hall) {
		h.net.SetShape(h.nodes[1].address, slow(1<<20))
		first := h.putting(0, span(0, 64)...)
		done := make(chan struct{})
		go func() {
			defer close(done)
			first.run(context.Background())
		}()
		time.Sleep(50 * time.Millisecond) // of 250
		second := h.store(0, span(1000, 1064)...).want(engine.Dropped)
		if second.took > 0 || second.Items[0].Reason != admit.QueueFull {
			t.Errorf("dropped after %v: %v", second.took, second.Items[0].Reason)
		}
		<-done
		first.want(engine.Stored)
		h.store(0, span(2000, 2064)...).want(engine.Stored)
		if p := h.peer(0, 1); p.Refused != 64 || p.Stored != 128 || p.PutQueueBytes != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// TestPutLate: a put that is given up is answered soon, and its memory is free.
func TestPutLate(t *testing.T) {
	for seed := range seeds(10) {
		inYard(t, seed, 2, func(i int, _ *pool.Options, m *member.Member) {
			if i == 0 {
				m.CapacityBytes = 0
			}
		}, func(h *hall) {
			h.net.SetShape(h.nodes[1].address, slow(1<<20))
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			s := h.putting(0, span(0, 100)...).run(ctx)
			s.want(engine.Late)
			if s.took > 101*time.Millisecond {
				t.Errorf("answered after %v", s.took)
			}
			time.Sleep(5 * time.Second)
			for i, n := range s.numbers { // some may be stored; none with other bytes
				if homes := h.homesOf(n); len(homes) > 0 {
					if l := h.get(0, pool.GetOptions{}, n); l.from(0) != 0 {
						t.Errorf("item %d is there with bytes that nobody put", i)
					}
				}
			}
			if p := h.peer(0, 1); !p.Usable || p.PutQueueBytes != 0 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestPutLateOffer: a put that is given up while its home has not said what it wants is
// answered at once; the question goes on, for the peer to be judged by.
func TestPutLateOffer(t *testing.T) {
	inYard(t, 13, 2, func(i int, _ *pool.Options, m *member.Member) {
		if i == 0 {
			m.CapacityBytes = 0
		}
	}, func(h *hall) {
		h.net.Freeze(h.nodes[1].address)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if s := h.putting(0, span(0, 100)...).run(ctx).want(engine.Late); s.took > 20*time.Millisecond || len(s.local) > 0 {
			t.Errorf("answered after %v, %d blocks are here", s.took, len(s.local))
		}
		time.Sleep(time.Second)
		if p := h.peer(0, 1); p.Failures == 0 {
			t.Errorf("%+v", p)
		}
		h.net.HealAll()
		time.Sleep(30 * time.Second)
		h.store(0, span(0, 100)...).want(engine.Stored)
		h.wantHomes(1, span(0, 100)...)
	})
}

// TestPutDamaged: bytes that change on the way are not stored.
func TestPutDamaged(t *testing.T) {
	inYard(t, 11, 2, func(i int, _ *pool.Options, m *member.Member) {
		if i == 0 {
			m.CapacityBytes = 0
		}
	}, func(h *hall) {
		h.net.SetPayload(payload(0.3))
		s := h.store(0, span(0, 200)...)
		h.net.SetPayload(payload(0))
		wrong := 0
		for i := range s.Items {
			it := &s.Items[i]
			if it.Status == engine.Dropped && it.Err != nil {
				wrong++
			} else if it.Status != engine.Stored {
				t.Errorf("block %d: %v", i, it.Status)
			}
			if homes := h.homesOf(i); (len(homes) == 1) != (it.Status == engine.Stored) {
				t.Errorf("block %d is %v, on nodes %v", i, it.Status, homes)
			}
		}
		if p, st := h.peer(0, 1), h.nodes[1].pool.Stat().Puts; wrong == 0 || p.PutsWrong != uint64(wrong) || st.TakenWrong != uint64(wrong) || st.Taken != uint64(200-wrong) {
			t.Errorf("%d wrong, %+v, %+v", wrong, p, st)
		}
		h.store(0, span(0, 200)...)
		h.wantHomes(1, span(0, 200)...)
	})
}

// TestPutRacesDrop: a drop at the home while blocks are on their way to it: what was put
// before it does not come back.
func TestPutRacesDrop(t *testing.T) {
	for seed := range seeds(30) {
		inYard(t, seed, 2, func(i int, _ *pool.Options, m *member.Member) {
			if i == 0 {
				m.CapacityBytes = 0
			}
		}, func(h *hall) {
			h.net.SetShape(h.nodes[1].address, slow(4<<20))
			s := h.putting(0, span(0, 100)...)
			old := h.nodes[1].ids(s.numbers...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.run(context.Background())
			}()
			time.Sleep(time.Duration(seed) * 5 * time.Millisecond)
			if err := h.nodes[1].Raise(2); err != nil {
				t.Fatal(err)
			}
			<-done
			if slices.Contains(h.nodes[1].Present(old), true) || slices.Contains(h.nodes[1].Present(h.nodes[1].ids(s.numbers...)), true) {
				t.Error("blocks that were dropped are there")
			}
			for i := range s.Items {
				if it := &s.Items[i]; it.Status == engine.Dropped && it.Err != nil && !errors.Is(it.Err, engine.ErrGone) {
					t.Errorf("block %d: %v", i, it.Err)
				}
			}
		})
	}
}

// TestPutEverythingAtOnce: puts of all nodes, with nodes that die and networks that do
// bad things; whatever is answered, what is there is what somebody put.
func TestPutEverythingAtOnce(t *testing.T) {
	for seed := range seeds(25) {
		inYard(t, 100+seed, 5, func(_ int, o *pool.Options, _ *member.Member) {
			o.Copies, o.PutTime = 1+int(seed%3), 500*time.Millisecond
		}, func(h *hall) {
			h.net.SetPayload(payload(0.02))
			var puts []*store
			var all sync.WaitGroup
			for n := range 20 {
				s := h.putting(n%4, span(50*(n%7), 50*(n%7)+150)...)
				puts = append(puts, s)
				all.Go(func() {
					time.Sleep(time.Duration(n) * 3 * time.Millisecond)
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
					defer cancel()
					s.run(ctx)
				})
			}
			time.Sleep(time.Duration(seed) * 2 * time.Millisecond)
			h.net.Kill(h.nodes[4].address)
			all.Wait()
			h.net.SetPayload(payload(0))
			for _, s := range puts {
				if s.took > 2010*time.Millisecond {
					t.Errorf("a put took %v", s.took)
				}
				for i := range s.Items {
					if it := &s.Items[i]; it.Status == engine.Stored && len(h.homesOf(s.numbers[i])) == 0 {
						t.Errorf("block %d is STORED, and nowhere", s.numbers[i])
					}
				}
			}
			for _, n := range span(0, 450) {
				if l := h.get(0, pool.GetOptions{}, n); l.items[0].Status == engine.Hit && l.from(0) < 0 {
					t.Errorf("block %d has bytes that nobody put", n)
				}
			}
		})
	}
}
