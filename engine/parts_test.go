package engine_test

import (
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// told is what a policy hears of an admitted block, its neighbours by their IDs.
type told struct {
	id, next [16]byte
	depth    uint32
	behind   uint32
	partial  bool
	joined   bool
	previous [16]byte
}

// listener notes what its policy is told.
type listener struct {
	evict.Policy
	held map[evict.Handle][16]byte
	all  *[]told
}

func (l *listener) Admit(h evict.Handle, a evict.Access) {
	l.held[h] = a.ID
	*l.all = append(*l.all, told{a.ID, l.held[a.Next], a.Depth, a.Behind, a.Partial, a.Joined, l.held[a.Previous]})
	l.Policy.Admit(h, a)
}

// TestChainInParts: a policy hears the same of a chain that is put in several calls,
// tail first, as of one that is put at once.
func TestChainInParts(t *testing.T) {
	const blocks, before = 10, 3
	hear := func(sizes ...int) (all []told) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{Policy: wrapPolicies(func(p evict.Policy) evict.Policy {
				return &listener{p, map[evict.Handle][16]byte{}, &all}
			})}))
			ns := namespace(t, s, "a", 4096)
			chain := chained(0, sequence(0, before+blocks)...)
			must(t, ns.Put(chain[:before], engine.PutOptions{}))
			all = nil
			items := chain[before:]
			for i := range items {
				items[i].Span = 7
			}
			for end, n := len(items), len(sizes)-1; n >= 0; n-- {
				o := engine.PutOptions{Partial: end == len(items)}
				if n == 0 {
					o.After = chain[before-1].Key
				}
				if len(sizes) > 1 {
					o.EndDepth = before + blocks - 1
				}
				if end < len(items) {
					o.Before, o.SpanOn = items[end].Key, true
				}
				must(t, ns.Put(items[end-sizes[n]:end], o))
				end -= sizes[n]
			}
			mustClose(t, s)
		})
		return all
	}
	whole := hear(blocks)
	if len(whole) != blocks || whole[0].behind != 0 || whole[blocks-1].behind != blocks-1 || !whole[0].partial || whole[1].next != whole[0].id ||
		whole[0].joined || !whole[1].joined || whole[blocks-1].previous == [16]byte{} {
		t.Fatalf("at once: %+v", whole)
	}
	for _, sizes := range [][]int{{5, 5}, {1, 8, 1}, {9, 1}, {1, 9}, slices.Repeat([]int{1}, blocks)} {
		if parts := hear(sizes...); !slices.Equal(parts, whole) {
			t.Errorf("in parts of %v:\n%+v, at once\n%+v", sizes, parts, whole)
		}
	}
}
