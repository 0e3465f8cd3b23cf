package node

import (
	"context"
	"errors"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// poolSpace is a space as peers see it: its blocks have IDs, and one may be on any of the
// stores. What a sick store holds is not here. It implements pool.Space.
type poolSpace struct {
	s *space
	n *Node
}

// ID implements pool.Space.
func (p poolSpace) ID() [32]byte { return p.s.id }

// Descriptor implements pool.Space.
func (p poolSpace) Descriptor() engine.Descriptor { return p.s.descriptor }

// Incarnation implements pool.Space.
func (p poolSpace) Incarnation() uint32 { return p.s.incarnation() }

// Raise implements pool.Space.
func (p poolSpace) Raise(incarnation uint32) error {
	if before := p.s.incarnation(); before < incarnation {
		defer p.n.forget(p.s)
	}
	return p.s.raise(incarnation)
}

// Clear implements pool.Space.
func (p poolSpace) Clear() error {
	defer p.n.forget(p.s)
	var errs []error
	for i := range p.s.parts {
		errs = append(errs, p.s.parts[i].ns.Clear())
	}
	return errors.Join(errs...)
}

// IDs implements pool.Space.
func (p poolSpace) IDs(keys []engine.Key) (ids []pool.ID, incarnation uint32) {
	highest := &p.s.parts[0]
	for i := range p.s.parts {
		if part := &p.s.parts[i]; part.ns.Incarnation() > highest.ns.Incarnation() {
			highest = part
		}
	}
	return highest.ns.IDs(keys)
}

// Present implements pool.Space.
func (p poolSpace) Present(ids []pool.ID) []bool {
	present, _, _ := p.match(ids, engine.MatchOptions{})
	return present
}

// Lease implements pool.Space.
func (p poolSpace) Lease(ids []pool.ID, o engine.MatchOptions) (present []bool, leased int, release func()) {
	present, leased, leases := p.match(ids, o)
	if len(leases) > 0 {
		release = connLease{parts: leases}.end
	}
	return present, leased, release
}

func (p poolSpace) match(ids []pool.ID, o engine.MatchOptions) (present []bool, leased int, leases []partLease) {
	present = make([]bool, len(ids))
	for i := range p.s.parts {
		part := &p.s.parts[i]
		if !part.well() {
			continue
		}
		r, err := part.ns.MatchIDs(ids, o)
		if err != nil {
			continue // the store is closed
		}
		for j, yes := range r.Present {
			present[j] = present[j] || yes
		}
		if r.Lease != 0 {
			leases = append(leases, partLease{part.ns, r.Lease})
			leased += r.Leased
		}
	}
	return present, leased, leases
}

// Touch implements pool.Space.
func (p poolSpace) Touch(ids []pool.ID) {
	for i := range p.s.parts {
		ns, own := p.s.parts[i].ns, ids
		if len(p.s.parts) > 1 { // a block's neighbours are those on its own store
			r, err := ns.MatchIDs(ids, engine.MatchOptions{})
			if err != nil {
				continue
			}
			own = make([]pool.ID, 0, len(ids))
			for j, yes := range r.Present {
				if yes {
					own = append(own, ids[j])
				}
			}
		}
		_, _ = ns.TouchIDs(own) // on a closed store the age does not matter
	}
}

// Delete implements pool.Space.
func (p poolSpace) Delete(ids []pool.ID) error {
	var errs []error
	for i := range p.s.parts {
		errs = append(errs, deleteIDs(p.s.parts[i].ns, ids))
	}
	return errors.Join(errs...)
}

// deleteIDs erases blocks from one store. A drop that comes in between does it as well,
// once it is durable.
func deleteIDs(ns *engine.Namespace, ids []pool.ID) error {
	for {
		incarnation := ns.Incarnation()
		_, err := ns.DeleteIDs(incarnation, ids)
		if !errors.Is(err, engine.ErrGone) {
			return err
		}
		if err := ns.RaiseTo(incarnation); err != nil { // waits for the drop
			return err
		}
	}
}

// Scan implements pool.Space.
func (p poolSpace) Scan(from pool.Cursor, f func(at pool.Cursor, e engine.Entry) bool) error {
	var errs []error
	stopped := false
	for i := from.Store; i < len(p.s.parts) && !stopped; i++ {
		if part := &p.s.parts[i]; part.well() {
			errs = append(errs, part.ns.ListFrom(from.ID, func(e engine.Entry) bool {
				if e.ID != from.ID || from.ID == (pool.ID{}) {
					stopped = !f(pool.Cursor{Store: i, ID: e.ID}, e)
				}
				return !stopped
			}))
		}
		from.ID = pool.ID{}
	}
	return errors.Join(errs...)
}

// Write implements pool.Space.
func (p poolSpace) Write(ctx context.Context, a *pool.Arrival) {
	b := &batch{node: p.n, space: p.s, class: stores, keys: make([]engine.Key, len(a.Items)), pieces: make([][][]byte, len(a.Items)),
		statuses: make([]byte, len(a.Items)), errs: make([]error, len(a.Items)), over: ctx.Done(), note: p.n.note}
	for i := range a.Items {
		b.keys[i], b.pieces[i] = a.Items[i].Key, a.Items[i].Src
	}
	freed := make(chan struct{}, len(a.Items))
	b.freed = func(int) { freed <- struct{}{} }
	o := a.Options
	o.Incarnation, o.Done, o.Released = a.Incarnation, ctx.Done(), nil
	if deadline, ok := ctx.Deadline(); ok && (o.Deadline.IsZero() || deadline.Before(o.Deadline)) {
		o.Deadline = deadline
	}
	b.storeAll(&putting{options: o, moved: a.Moved, place: func(i int) (uint32, uint32, uint8) {
		return a.Items[i].Depth, a.Items[i].Span, a.Items[i].Importance
	}})
	for i := range a.Items {
		it := &a.Items[i]
		it.Status, it.Err = engineStatus(b.statuses[i]), b.errs[i]
		if b.reasons != nil {
			it.Reason = admit.Reason(b.reasons[i])
		}
		if it.Status == engine.Late {
			<-freed // the memory is the caller's when Write returns
		}
	}
}
