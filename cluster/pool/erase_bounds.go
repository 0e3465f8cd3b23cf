package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
)

// ErrErasures says that a bound on what the pool remembers of erasures is reached.
var ErrErasures = errors.New("too many different erasures to remember")

// Bounds of what a node remembers of erasures, beside the tombstones. Its own end at half
// of each: what nodes do without knowing of each other fits into the other half.
const (
	pairsMax   = 1 << 15         // of a namespace and a node that has erased in it
	spacesMax  = peer.FloorsMax  // with an erasure in them, or a floor
	originsMax = peer.OriginsMax // nodes that have erased something
)

// bound refuses erasures of a kind that cannot be remembered any more.
func (e *eraser) bound(space [32]byte) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	s := e.known.spaces[space]
	if s != nil && s.clock.Of(e.self) > 0 {
		return nil
	}
	switch {
	case e.known.pairs >= pairsMax/2:
		return fmt.Errorf("%w: %d pairs of a namespace and a node that has erased in it", ErrErasures, e.known.pairs)
	case len(e.known.spaces) >= spacesMax/2:
		return fmt.Errorf("%w: in %d namespaces", ErrErasures, len(e.known.spaces))
	case e.known.origins[e.self] == nil && len(e.known.origins) >= originsMax/2:
		return fmt.Errorf("%w: %d nodes have erased something since the pool was made", ErrErasures, len(e.known.origins))
	}
	return nil
}

// room refuses what others tell of erasures if not all of it can be remembered.
func (k *known) room(b *batch) error {
	type pair struct {
		space  [32]byte
		origin member.ID
	}
	spaces, origins, pairs := map[[32]byte]bool{}, map[member.ID]bool{}, map[pair]bool{}
	for _, f := range b.floors {
		spaces[f.Namespace] = k.spaces[f.Namespace] == nil
	}
	add := func(space [32]byte, origin member.ID) {
		s := k.spaces[space]
		spaces[space], origins[origin] = s == nil, k.origins[origin] == nil
		pairs[pair{space, origin}] = s == nil || s.clock.Of(origin) == 0
	}
	for i := range b.from {
		add(b.from[i].Namespace, b.from[i].origin)
	}
	for _, m := range b.lost {
		add(m.space, m.origin)
	}
	for _, c := range []struct {
		what         string
		there, fresh int
		most         int
	}{
		{"namespaces", len(k.spaces), trues(spaces), spacesMax},
		{"nodes that have erased something", len(k.origins), trues(origins), originsMax},
		{"pairs of a namespace and a node that has erased in it", k.pairs, trues(pairs), pairsMax},
	} {
		if c.fresh > 0 && c.there+c.fresh > c.most {
			return fmt.Errorf("%w: %d %s and %d more, at most %d", ErrErasures, c.there, c.what, c.fresh, c.most)
		}
	}
	return nil
}

func trues[K comparable](of map[K]bool) (n int) {
	for _, yes := range of {
		if yes {
			n++
		}
	}
	return n
}

// giveUp has this node give up all its blocks, since it was told of erasures that it cannot
// remember, and of those that follow on them it will not even be told. Its clock does not
// cover them: who knows of them is not answered, and tells it again.
func (e *eraser) giveUp(ctx context.Context, t *takingIn, full error) error {
	if e.counts.overfull.Add(1) == 1 {
		e.p.o.Journal.Add(journal.Trouble, "", "others have erased more than this node can remember, and it gives up all its blocks as often as it is told: %v", full)
	}
	spaces := e.p.local.Spaces()
	var h holding
	for _, space := range spaces {
		h.spaces = append(h.spaces, space.ID())
	}
	drop, err := e.hold(ctx, h)
	if err != nil {
		return err
	}
	defer drop()
	for _, space := range spaces {
		count := &e.counts.cleared
		if f := t.spaces[space.ID()]; f != nil && f.raise > space.Incarnation() {
			count, err = &e.counts.raised, space.Raise(f.raise)
		} else {
			err = space.Clear()
		}
		if err != nil {
			return fmt.Errorf("erase in namespace %q: %w", space.Descriptor().Name, err)
		}
		count.Add(1)
	}
	return full
}
