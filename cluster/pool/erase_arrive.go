package pool

import (
	"context"
	"slices"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/engine/planted"
)

// arrive is asked before copies of blocks that were read or put elsewhere are written
// here: s is what was known when they were read (scope). fresh[i] says that nothing has
// been erased since that could be block i. Those that are fresh count as arriving until
// leave is called, exactly once, after their write has ended: erasing them waits.
func (p *Pool) arrive(s *peer.Scope, ids []ID) (fresh []bool, leave func()) {
	e := p.erase
	fresh = make([]bool, len(ids))
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	if e.heldIn[s.Namespace] == 0 && e.known.floorOf(s.Namespace) <= s.Incarnation {
		all, some := false, map[ID]bool(nil)
		if known := e.known.spaces[s.Namespace]; known != nil {
			all, some = e.known.stale(known, s.Clock, ids)
			if planted.Active(planted.TakeStale) {
				all, some = false, nil
			}
		}
		for i, id := range ids {
			if fresh[i] = !all && !some[id] && e.held[id] == 0; fresh[i] {
				e.coming[id]++
				e.inside[s.Namespace]++
				n++
			}
		}
	}
	e.counts.refused.Add(uint64(len(ids) - n))
	space, came := s.Namespace, slices.Clone(fresh)
	ids = slices.Clone(ids)
	return fresh, func() { e.leave(space, ids, came) }
}

func (e *eraser) leave(space [32]byte, ids []ID, came []bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, id := range ids {
		if came[i] {
			release(e.coming, id)
			release(e.inside, space)
		}
	}
	if e.left != nil {
		close(e.left)
		e.left = nil
	}
}

// release takes one off a count, which does not stay at 0.
func release[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// holding is what is kept from arriving: blocks, and whole namespaces.
type holding struct {
	ids    []ID
	spaces [][32]byte
}

// hold keeps copies from arriving until drop is called, and waits for those that have
// begun to.
func (e *eraser) hold(ctx context.Context, h holding) (drop func(), err error) {
	e.mu.Lock()
	for _, id := range h.ids {
		e.held[id]++
	}
	for _, space := range h.spaces {
		e.heldIn[space]++
	}
	e.mu.Unlock()
	drop = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, id := range h.ids {
			release(e.held, id)
		}
		for _, space := range h.spaces {
			release(e.heldIn, space)
		}
	}
	for {
		left := e.awaited(h)
		if left == nil {
			return drop, nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			drop()
			return nil, context.Cause(ctx)
		}
	}
}

// awaited is closed when an arrival ends, nil if none of h is arriving.
func (e *eraser) awaited(h holding) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	waits := false
	for _, id := range h.ids {
		waits = waits || e.coming[id] > 0
	}
	for _, space := range h.spaces {
		waits = waits || e.inside[space] > 0
	}
	if !waits {
		return nil
	}
	if e.left == nil {
		e.left = make(chan struct{})
	}
	return e.left
}
