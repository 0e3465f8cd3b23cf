package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// The pool on the way of a Put. Blocks that are here are put here, where they are PRESENT;
// for the others the pool finds homes, of which this node may be one.

// put stores the blocks that are admitted, and gives every block a status.
func (t *transfer) put(w *putting) {
	if t.node.pool == nil {
		t.storeAll(w)
		return
	}
	here, _, _, err := t.space.present(t.keys, engine.MatchOptions{})
	if err != nil {
		t.storeAll(w) // which says so
		return
	}
	judged := *w
	judged.away = true
	t.gate(&judged)
	wanted := func(i int) bool { return t.pieces[i] != nil && t.statuses[i] == 0 }
	a := t.node.awayOf(t.space, t.keys, here, wanted)
	var own []int
	for i, yes := range here {
		if yes && wanted(i) {
			own = append(own, i)
		}
	}
	rest := *w
	rest.moved = true // is judged
	var beside sync.WaitGroup
	var mine *batch
	if len(own) > 0 {
		mine = t.some(own)
		beside.Go(func() { mine.storeSome(&rest, t.keys, own) })
	}
	if a != nil {
		t.putAway(a, &rest)
	}
	beside.Wait()
	if mine != nil {
		t.take(mine, own)
	}
	t.setRest(wire.Dropped)
}

// putAway has the pool store what is not here.
func (t *transfer) putAway(a *away, w *putting) {
	p := &pool.Putting{Of: a.of, Items: make([]pool.PutItem, len(a.index)), Options: w.options}
	for j, i := range a.index {
		item := &p.Items[j]
		item.ID, item.Key, item.Src = a.ids[j], t.keys[i], t.pieces[i]
		item.Depth, item.Span, item.Importance = w.place(i)
	}
	p.Options.Partial = p.Options.Partial && a.index[len(a.index)-1] == len(t.keys)-1
	local := *w
	local.options.Incarnation = a.of.Incarnation
	p.Here = func(items []int) {
		own := make([]int, len(items))
		for n, j := range items {
			own[n] = a.index[j]
		}
		b := t.some(own)
		b.storeSome(&local, t.keys, own)
		t.take(b, own)
		for n, j := range items {
			p.Items[j].Here = engineStatus(b.statuses[n])
		}
	}
	ctx, end := t.lasting(w.options.Deadline)
	a.pool.Put(ctx, p)
	end()
	for j, i := range a.index {
		t.away(i, &p.Items[j])
	}
}

// away takes in what came of a block in the pool.
func (t *transfer) away(i int, item *pool.PutItem) {
	if t.statuses[i] = wireStatus(item.Status); item.Here == engine.Unanswered {
		switch item.Status {
		case engine.Late: // nothing has its memory any more
			t.released(i)
		case engine.Stored:
			t.storedAway++
		}
	}
	switch {
	case item.Status == engine.Dropped && item.Reason != admit.Admitted:
		t.refuse(i, item.Reason)
	case item.Status != engine.Dropped && t.reasons != nil:
		t.reasons[i] = byte(admit.Admitted) // one copy was refused, another was not
	}
	if item.Err != nil {
		t.note("a block was not stored in the pool", item.Err)
	}
	if errors.Is(item.Err, pool.ErrMemory) {
		t.node.counters.faults.Add(1)
	}
}

// lasting is a context that ends with the request's patience; end must be called.
func (t *transfer) lasting(deadline time.Time) (ctx context.Context, end func()) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-t.over:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		watching.Wait()
	}
}

// some is a batch of some of the blocks.
func (b *batch) some(index []int) *batch {
	s := &batch{node: b.node, space: b.space, class: b.class, keys: make([]engine.Key, len(index)), pieces: make([][][]byte, len(index)),
		statuses: make([]byte, len(index)), over: b.over, freed: func(j int) { b.freed(index[j]) }, note: b.note}
	for j, i := range index {
		s.keys[j], s.pieces[j] = b.keys[i], b.pieces[i]
	}
	return s
}

// storeSome stores a batch of blocks of all, which are at these indices there.
func (b *batch) storeSome(w *putting, all []engine.Key, index []int) {
	own := *w
	own.place = func(j int) (depth, span uint32, importance uint8) { return w.place(index[j]) }
	own.options.Partial = w.options.Partial && index[len(index)-1] == len(all)-1
	b.storeAll(&own)
}

// take takes in what came of a batch of some of the blocks.
func (b *batch) take(some *batch, index []int) {
	for j, i := range index {
		b.statuses[i] = some.statuses[j]
		if some.reasons != nil && some.reasons[j] != 0 {
			b.refuse(i, admit.Reason(some.reasons[j]))
		}
	}
}
