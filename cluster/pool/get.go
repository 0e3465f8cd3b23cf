package pool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// GetItem is one block to load from another node. ID, Dst and At are the caller's input,
// the rest is the answer.
type GetItem struct {
	ID ID
	// Dst are the pieces to fill, in order, together exactly a block's bytes. From the
	// call until the item is answered (or, after Late, released) the memory is the
	// pool's. It may be memory that a client can take away: then the item is a Miss.
	Dst [][]byte
	// At is where the block is, as Match or Find said. Zero: as it is remembered, or
	// else as a Match says.
	At     Place
	Status engine.Status // Hit, Miss, Late or Busy
	// Err is the cause of a Miss that was not a plain absence, for logs.
	Err error
}

// GetOptions govern one Get, as engine.GetOptions do one of a store.
type GetOptions struct {
	// Deadline, or the closing of Done, ends the answer: every item still unanswered
	// becomes Late.
	Deadline time.Time
	Done     <-chan struct{}
	// Bounce receives into a private frame and copies only while the answer is still
	// wanted: a Late item is then released when the call returns.
	Bounce bool
	// NoTouch leaves the age of the blocks at their nodes as it is.
	NoTouch bool
	// Released is called exactly once for every Late item, after the last access to its
	// Dst, from any goroutine, possibly before Get returns. It must be quick.
	Released func(i int)
}

// Get loads blocks from other nodes, several at once: each from one of the nodes where it
// is, or, if that is slow, from a second one; never parts of two. Every item is answered
// when it returns. The bytes of a Hit are proven against the checksum that their store has
// for this very ID. A remembered place that is wrong costs one Match, if there is time.
func (p *Pool) Get(of Of, items []GetItem, o GetOptions) {
	ctx, cancel := until(p.ctx, o.Deadline)
	l := &loading{pool: p, of: of, items: items, o: o, ctx: ctx, tried: make([]Place, len(items)), matched: make([]bool, len(items))}
	var watching sync.WaitGroup
	if o.Done != nil {
		watching.Go(func() {
			select {
			case <-o.Done:
				cancel()
			case <-ctx.Done():
			}
		})
	}
	l.run()
	cancel()
	watching.Wait()
}

// until is a context that ends at a deadline, if there is one.
func until(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}

// loading is one Get under way.
type loading struct {
	pool  *Pool
	of    Of
	items []GetItem
	o     GetOptions
	ctx   context.Context // ends when nobody waits for the answer any more

	tried   []Place // per item: who was asked in vain. Each item has one goroutine at a time
	matched []bool  // per item: whether all were asked where it is

	mu     sync.Mutex
	failed []int // items whose copy could not be had
}

// run gives every item a status.
func (l *loading) run() {
	var known, unknown []int
	now := l.pool.peers.reachable()
	for i := range l.items {
		it := &l.items[i]
		it.Status, it.Err = engine.Unanswered, nil
		if !it.At.Known() {
			it.At = now.hinted(l.pool.hints, &it.ID)
		}
		if it.At.Known() {
			known = append(known, i)
		} else {
			unknown = append(unknown, i)
		}
	}
	var asking sync.WaitGroup
	if len(unknown) > 0 {
		asking.Go(func() { l.load(l.match(unknown)) })
	}
	l.load(known)
	asking.Wait()
	if again := l.takeFailed(); len(again) > 0 && l.ctx.Err() == nil {
		l.load(l.elsewhere(again))
	}
	for i := range l.items {
		if l.items[i].Status == engine.Unanswered {
			l.end(i)
		}
	}
}

// end answers an item that could not be had, and whose memory is not in use.
func (l *loading) end(i int) {
	if l.ctx.Err() != nil && l.pool.ctx.Err() == nil {
		l.late(i)
		return
	}
	l.items[i].Status = engine.Miss
}

// late answers an item whose memory is not in use.
func (l *loading) late(i int) {
	l.items[i].Status = engine.Late
	if l.o.Released != nil {
		l.o.Released(i)
	}
}

// match asks all nodes where blocks are, and returns those that are anywhere; others are
// misses.
func (l *loading) match(some []int) (found []int) {
	ids := make([]ID, len(some))
	for j, i := range some {
		ids[j] = l.items[i].ID
	}
	at := l.pool.Match(l.of, ids, MatchOptions{Done: l.ctx.Done()}).At
	for j, i := range some {
		l.matched[i] = true
		for _, number := range l.tried[i] {
			at[j].remove(number)
		}
		if l.items[i].At = at[j]; at[j].Known() {
			found = append(found, i)
		} else if l.ctx.Err() == nil {
			l.items[i].Status = engine.Miss
		}
	}
	return found
}

// elsewhere finds other copies of blocks that could not be had: known ones, or by asking
// all, once.
func (l *loading) elsewhere(some []int) (found []int) {
	var unknown []int
	now := l.pool.peers.reachable()
	for _, i := range some {
		at := &l.items[i].At
		for _, number := range l.tried[i] {
			at.remove(number)
		}
		switch {
		case slices.ContainsFunc(at[:], func(n uint16) bool { return now[n] != nil }):
			found = append(found, i)
		case !l.matched[i]:
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		found = append(found, l.match(unknown)...)
	}
	return found
}

// fail is called for an item that a node did not have or give, and whose memory is not
// in use any more.
func (l *loading) fail(i int) {
	l.mu.Lock()
	l.failed = append(l.failed, i)
	l.mu.Unlock()
}

// takeFailed are the items that have failed, by rising index.
func (l *loading) takeFailed() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := l.failed
	l.failed = nil
	slices.Sort(failed)
	return failed
}
