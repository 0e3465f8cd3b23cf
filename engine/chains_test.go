package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// chained makes the items of a chain, root first.
func chained(group uint32, blocks ...int) []engine.PutItem {
	items := make([]engine.PutItem, len(blocks))
	for i, n := range blocks {
		items[i] = engine.PutItem{Key: engine.Key{Group: group, Bytes: key(n).Bytes}, Src: [][]byte{content(n, 4096)}, Depth: uint32(i)}
	}
	return items
}

func inGroup(t *testing.T, ns *engine.Namespace, group uint32, blocks ...int) []bool {
	t.Helper()
	keys := keysOf(blocks...)
	for i := range keys {
		keys[i].Group = group
	}
	m, err := ns.Match(keys, engine.MatchOptions{})
	must(t, err)
	return m.Present
}

// TestLongDocument: a document of 128K tokens, a quarter longer than the store, is asked
// about from its beginning again and again. Put block by block from the root on, an LRU
// has nothing of it when it comes again. Put as a chain, the default keeps its beginning.
func TestLongDocument(t *testing.T) {
	const rounds = 12
	run := func(policy func(int) (evict.Factory, error), together bool) (perRound float64, slots int) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{Policy: policy}))
			ns := namespace(t, s, "a", 4096)
			slots = ns.Stat().Slots
			document := sequence(0, slots*5/4)
			hits := 0
			for round := range rounds {
				m, err := ns.Match(keysOf(document...), engine.MatchOptions{})
				must(t, err)
				if round > 0 {
					hits += m.Prefix
				}
				items := chained(0, document...)
				if together {
					must(t, ns.Put(items, engine.PutOptions{}))
				}
				for i := range items {
					if !together {
						must(t, ns.Put(items[i:i+1], engine.PutOptions{}))
					}
				}
				time.Sleep(5 * time.Second)
			}
			perRound = float64(hits) / (rounds - 1)
			mustClose(t, s)
		})
		return perRound, slots
	}
	strict, _ := run(evict.NewLRU, false)
	kept, slots := run(evict.NewHazard, true)
	t.Logf("of a store of %d blocks: head first under LRU %.1f prefix hits a round, by default %.1f", slots, strict, kept)
	if strict != 0 {
		t.Errorf("head first under LRU: %.1f prefix hits a round", strict)
	}
	if kept < 0.9*float64(slots) {
		t.Errorf("by default: %.1f prefix hits a round of %d blocks", kept, slots)
	}
}

// TestShardsLeaveTogether: the blocks of one key in two groups, given group by group,
// leave the store together, deepest first.
func TestShardsLeaveTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{Policy: evict.NewHazard}))
		ns := namespace(t, s, "a", 4096)
		const depth = 40
		chain := sequence(0, depth)
		must(t, ns.Put(append(chained(0, chain...), chained(1, chain...)...), engine.PutOptions{}))
		time.Sleep(10 * time.Minute)
		gone := 0
		for n := 1000; gone < depth; n++ {
			if n > 100000 {
				t.Fatal("the chain does not go")
			}
			must(t, ns.Put(chained(0, 2*n, 2*n+1), engine.PutOptions{}))
			a, b := inGroup(t, ns, 0, chain...), inGroup(t, ns, 1, chain...)
			apart := 0
			for i := range chain {
				if a[i] != b[i] {
					apart++
				}
				if i > 0 && a[i] && !a[i-1] {
					t.Fatalf("block %d is here without its parent: %v", i, a)
				}
			}
			if apart > 1 {
				t.Fatalf("%d blocks are here in one group only: %v, %v", apart, a, b)
			}
			gone = 0
			for i := range a {
				if !a[i] && !b[i] {
					gone++
				}
			}
		}
		mustClose(t, s)
	})
}

// TestRanksEvictAlike: two namespaces that see the same requests, as the ranks of one
// model do, and have room for as many blocks, hold the same blocks.
func TestRanksEvictAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{Policy: evict.NewHazard}))
		ranks := []*engine.Namespace{namespace(t, s, "rank 0", 4096), namespace(t, s, "rank 1", 4096)}
		quota := int64(s.Stat().CapacityBytes / 4)
		for _, ns := range ranks {
			must(t, ns.SetQuota(quota))
		}
		for n := range 60 {
			for _, ns := range ranks {
				must(t, ns.Put(chained(0, sequence(n%7*1000+n*20, 20)...), engine.PutOptions{}))
			}
			time.Sleep(3 * time.Second)
		}
		for n := range 60 {
			chain := sequence(n%7*1000+n*20, 20)
			a, b := inGroup(t, ranks[0], 0, chain...), inGroup(t, ranks[1], 0, chain...)
			for i := range a {
				if a[i] != b[i] {
					t.Fatalf("chain %d: %v, %v", n, a, b)
				}
			}
		}
		if c := s.Stat().Counters; c.Evicted == 0 {
			t.Error("nothing was evicted")
		}
		mustClose(t, s)
	})
}

// TestSpanLeavesTogether: of two chains of one age the one that is a span goes whole once
// it has begun to.
func TestSpanLeavesTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{Policy: evict.NewHazard}))
		ns := namespace(t, s, "a", 4096)
		span, other := sequence(0, 30), sequence(100, 30)
		items := chained(0, span...)
		for i := range items {
			items[i].Span = 7
		}
		must(t, ns.Put(items, engine.PutOptions{}))
		must(t, ns.Put(chained(0, other...), engine.PutOptions{}))
		time.Sleep(10 * time.Minute)
		for n := 1000; ; n++ {
			must(t, ns.Put(chained(0, n), engine.PutOptions{}))
			here := inGroup(t, ns, 0, span...)
			left := 0
			for i := range here {
				if here[i] {
					left++
				}
				if i > 0 && here[i] && !here[i-1] {
					t.Fatalf("not tail first: %v", here)
				}
			}
			before := 0
			for _, is := range inGroup(t, ns, 0, other...) {
				if is {
					before++
				}
			}
			if left > 0 && left < len(span)-1 && n%2 == 0 { // begun: nothing else goes until it is gone
				must(t, ns.Put(chained(0, 1_000_000+n), engine.PutOptions{}))
				after := 0
				for _, is := range inGroup(t, ns, 0, other...) {
					if is {
						after++
					}
				}
				if after != before {
					t.Fatalf("%d blocks of the span are left, and one of another chain went", left)
				}
			}
			if left == 0 {
				break
			}
			if n > 100000 {
				t.Fatal("the span does not go")
			}
		}
		mustClose(t, s)
	})
}
