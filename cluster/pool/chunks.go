package pool

import (
	"sync"
	"time"
)

// LoadTime is how long blocks at these places would take to come, behind what is asked for
// already, at the measured rates of their nodes: of the slowest of them. 0 while that is not
// known.
func (p *Pool) LoadTime(of Of, at []Place) (longest time.Duration) {
	bytes := map[uint16]int64{}
	for _, place := range at {
		if place.Known() {
			bytes[place[0]] += int64(of.BlockBytes)
		}
	}
	now := p.peers.reachable()
	for number, n := range bytes {
		if r := now[number]; r != nil {
			longest = max(longest, r.times.timeFor(r.inFlight.Load()+n))
		}
	}
	return longest
}

// chunkBytes is what one call asks for, unless a block is larger.
const chunkBytes = 4 << 20

// chunk is what goes to one node in one call. second, if not nil, has all of it too.
type chunk struct {
	first, second *remote
	items         []int
}

// load loads blocks from where they are. Every item has a status then, or has failed.
func (l *loading) load(some []int) {
	if len(some) == 0 {
		return
	}
	byNode := map[*remote][]chunk{}
	for _, c := range l.chunks(some) {
		byNode[c.first] = append(byNode[c.first], c)
	}
	var nodes sync.WaitGroup
	for r, chunks := range byNode {
		nodes.Go(func() { l.loadFrom(r, chunks) })
	}
	nodes.Wait()
}

// loadFrom asks one node for chunks, root first, as many at once as its bound allows.
func (l *loading) loadFrom(r *remote, chunks []chunk) {
	var running sync.WaitGroup
	for i := range chunks {
		c := &chunks[i]
		bytes := int64(len(c.items)) * int64(l.of.BlockBytes)
		share := min(bytes, l.pool.o.InFlightBytes)
		if r.room.Acquire(l.ctx, share) != nil {
			for _, i := range c.items {
				l.end(i)
			}
			continue
		}
		r.inFlight.Add(bytes)
		running.Go(func() {
			l.fetch(c)
			r.inFlight.Add(-bytes)
			r.room.Release(share)
		})
	}
	running.Wait()
}

// chunks cuts blocks by the nodes that have them, keeping their order. Of two copies the
// one at the node with less to do is asked for. What nobody has that can be asked now fails.
func (l *loading) chunks(some []int) []chunk {
	type pair struct{ first, second *remote }
	now, load := l.pool.peers.reachable(), map[*remote]int64{}
	open := map[pair]int{} // to the chunk that is being filled
	var all []chunk
	most := max(1, chunkBytes/l.of.BlockBytes)
	for _, i := range some {
		var by pair
		for _, number := range l.items[i].At {
			switch r := now[number]; {
			case r == nil:
			case by.first == nil:
				by.first = r
			default:
				by.second = r
			}
		}
		if by.first == nil {
			l.fail(i)
			continue
		}
		if by.second != nil && by.second.inFlight.Load()+load[by.second] < by.first.inFlight.Load()+load[by.first] {
			by.first, by.second = by.second, by.first
		}
		load[by.first] += int64(l.of.BlockBytes)
		at, ok := open[by]
		if !ok || len(all[at].items) == most {
			at = len(all)
			open[by] = at
			all = append(all, chunk{first: by.first, second: by.second})
		}
		all[at].items = append(all[at].items, i)
	}
	return all
}
