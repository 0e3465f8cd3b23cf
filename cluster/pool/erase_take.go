package pool

import (
	"context"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/engine/planted"
)

// taking is what another node has told, less what is known: per namespace its effect
// here, and what goes to disk.
type takingIn struct {
	spaces map[[32]byte]*effect
	batch  batch
}

// effect is what erasures come to in one namespace of this node.
type effect struct {
	raise uint32 // to this incarnation; 0: not
	clear bool   // of every block
	ids   []ID   // of these blocks
}

// takeIn takes in what another node has told of erasures: when it returns without an
// error they have had their effect here, durably, and are known. What is more than a node
// remembers is ErrErasures: then no block is left here that it could be meant for.
func (e *eraser) takeIn(ctx context.Context, floors []peer.Floor, groups []peer.Group) error {
	if len(floors)+len(groups) == 0 {
		return nil
	}
	if err := take(ctx, e.taking); err != nil {
		return err
	}
	defer func() { <-e.taking }()
	t := e.news(floors, groups)
	if t == nil {
		return nil
	}
	e.mu.RLock()
	full := e.known.room(&t.batch)
	e.mu.RUnlock()
	if full != nil {
		return e.giveUp(ctx, t, full)
	}
	var h holding
	for space, f := range t.spaces {
		if f.clear || f.raise > 0 {
			h.spaces = append(h.spaces, space)
		} else {
			h.ids = append(h.ids, f.ids...)
		}
	}
	drop, err := e.hold(ctx, h)
	if err != nil {
		return err
	}
	defer drop()
	for space, f := range t.spaces {
		if planted.Active(planted.SkipEffect) {
			break
		}
		if err := e.affect(space, f); err != nil {
			return err
		}
	}
	if err := e.commit(&t.batch); err != nil {
		return err
	}
	e.counts.taken.Add(uint64(len(t.batch.from)))
	return e.raiseOpened(t)
}

// raiseOpened raises namespaces that were opened before their floor was known.
func (e *eraser) raiseOpened(t *takingIn) error {
	for id, f := range t.spaces {
		if f.raise == 0 {
			continue
		}
		if space := e.p.local.Space(id); space != nil && space.Incarnation() < f.raise {
			if err := space.Raise(f.raise); err != nil {
				return err
			}
		}
	}
	return nil
}

// news is what is not known of what another node has told; nil if there is nothing.
func (e *eraser) news(floors []peer.Floor, groups []peer.Group) *takingIn {
	t := &takingIn{spaces: map[[32]byte]*effect{}}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, f := range floors {
		if f.Incarnation > e.known.floorOf(f.Namespace) {
			t.of(f.Namespace).raise = f.Incarnation
			t.batch.floors = append(t.batch.floors, f)
		}
	}
	for i := range groups {
		e.addNewsRLocked(t, &groups[i])
	}
	if len(t.batch.from)+len(t.batch.lost)+len(t.batch.floors) == 0 {
		return nil
	}
	for _, r := range t.batch.from {
		f := t.of(r.Namespace)
		if f.raise == 0 && r.Incarnation > e.known.floorOf(r.Namespace) || f.raise > 0 && r.Incarnation > f.raise {
			f.raise = r.Incarnation
		}
	}
	for _, r := range t.batch.from {
		f := t.of(r.Namespace)
		switch {
		case f.raise > 0: // nothing that was put before stays
		case r.Drop() || r.Incarnation < e.known.floorOf(r.Namespace):
			// Who erased it did not know of our latest drop, nor we of this. By then
			// blocks may have been put here that it was meant to erase.
			f.clear = true
		default:
			f.ids = append(f.ids, r.ID)
		}
	}
	return t
}

// addNewsRLocked adds what is new in a group.
func (e *eraser) addNewsRLocked(t *takingIn, g *peer.Group) {
	at := e.known.clockOf(g.Origin)
	if g.Through <= at || g.After > at {
		return // known, or not next to what is known: our clock tells the sender
	}
	gap := false
	for _, l := range g.Lost {
		if l.Seq > at {
			gap = true
			t.of(l.Namespace).clear = true
			t.batch.lost = append(t.batch.lost, lostMark{space: l.Namespace, origin: g.Origin, seq: l.Seq})
		}
	}
	if gap {
		t.batch.lost = append(t.batch.lost, e.known.blur(g.Origin)...)
	}
	for _, erasure := range g.Erasures {
		if erasure.Seq > at {
			t.batch.from = append(t.batch.from, logged{origin: g.Origin, Erasure: erasure})
		}
	}
}

func (t *takingIn) of(space [32]byte) *effect {
	f := t.spaces[space]
	if f == nil {
		f = &effect{}
		t.spaces[space] = f
	}
	return f
}

// affect lets erasures have their effect on the stores.
func (e *eraser) affect(id [32]byte, f *effect) (err error) {
	space := e.p.local.Space(id)
	if space == nil {
		if e.p.local.Holds(id) {
			return fmt.Errorf("erase in namespace %x: it cannot be opened", id[:8])
		}
		return nil // nothing of it is here
	}
	switch {
	case f.raise > 0:
		err = space.Raise(f.raise)
		e.counts.raised.Add(1)
		e.p.o.Journal.Add(journal.Erased, "", "namespace %q was dropped by another node: it is at incarnation %d", space.Descriptor().Name, f.raise)
	case f.clear:
		err = space.Clear()
		e.counts.cleared.Add(1)
		e.p.o.Journal.Add(journal.Erased, "", "all blocks of namespace %q were given up here: nobody can tell which of them were deleted while this node was away", space.Descriptor().Name)
	default:
		err = space.Delete(f.ids)
	}
	if err != nil {
		return fmt.Errorf("erase in namespace %x: %w", id[:8], err)
	}
	return nil
}

// eraseHere erases blocks here, and remembers it.
func (e *eraser) eraseHere(ctx context.Context, space Space, incarnation uint32, ids []ID) error {
	id := space.ID()
	if err := e.bound(id); err != nil {
		return err
	}
	drop, err := e.hold(ctx, holding{ids: ids})
	if err != nil {
		return err
	}
	defer drop()
	if incarnation < e.floor(id) {
		return nil // erased whole
	}
	if err := space.Delete(ids); err != nil {
		return err
	}
	b := batch{own: make([]peer.Erasure, len(ids))}
	for i := range ids {
		b.own[i] = peer.Erasure{Namespace: id, Incarnation: incarnation, ID: ids[i]}
	}
	if err := e.commit(&b); err != nil {
		return err
	}
	e.counts.deleted.Add(uint64(len(ids)))
	return nil
}

// dropHere drops a namespace here, and remembers it.
func (e *eraser) dropHere(ctx context.Context, space Space) error {
	id := space.ID()
	if err := e.bound(id); err != nil {
		return err
	}
	if err := take(ctx, e.taking); err != nil {
		return err
	}
	defer func() { <-e.taking }()
	to := max(e.floor(id), space.Incarnation()) + 1
	if err := space.Raise(to); err != nil {
		return err
	}
	if err := e.commit(&batch{own: []peer.Erasure{{Namespace: id, Incarnation: to}}}); err != nil {
		return err
	}
	e.counts.dropped.Add(1)
	e.p.o.Journal.Add(journal.Erased, "", "namespace %q was dropped: it is at incarnation %d", space.Descriptor().Name, to)
	return nil
}

// floor is the lowest incarnation of a namespace that is not erased.
func (e *eraser) floor(space [32]byte) uint32 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.known.floorOf(space)
}
