package node

import (
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// work fetches for one drive until nothing is left.
func (p *prefetcher) work(d *drive) {
	for {
		some, more := p.take(d)
		if !more {
			return
		}
		if len(some) > 0 {
			p.fetch(d, some)
		}
		p.end(some)
	}
}

// take is the next chunk of one namespace. What is not wanted any more is left out.
func (p *prefetcher) take(d *drive) (some []fetch, more bool) {
	most := d.prefetchChunk()
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[d]
	if p.stopped {
		q.soon, q.later = p.cancelAllLocked(q.soon), p.cancelAllLocked(q.later)
	}
	if len(q.soon)+len(q.later) == 0 {
		p.workers[d]--
		return nil, false
	}
	from := &q.later
	if len(q.soon) > 0 {
		from = &q.soon
	}
	nBytes, n := int64(0), 0
	for ; n < len(*from); n++ {
		f := &(*from)[n]
		if !p.pending[f.version] || !f.due(now) {
			p.cancelLocked(f)
			continue
		}
		if len(some) > 0 && (f.space != some[0].space || nBytes+int64(f.space.blockBytes) > most) {
			break
		}
		nBytes += int64(f.space.blockBytes)
		some = append(some, *f)
	}
	clear((*from)[:n])
	if *from = (*from)[n:]; len(*from) == 0 {
		*from = nil // and with it the memory
	}
	return some, true
}

func (p *prefetcher) cancelAllLocked(all []fetch) []fetch {
	for i := range all {
		p.cancelLocked(&all[i])
	}
	return nil
}

// due says whether a block is still to be fetched.
func (f *fetch) due(now time.Time) bool {
	return now.Before(f.until) && (f.wanted == nil || f.wanted())
}

func (p *prefetcher) cancelLocked(f *fetch) {
	p.counts.Cancelled++
	p.endLocked(f)
}

func (p *prefetcher) endLocked(f *fetch) {
	delete(p.pending, f.version)
	p.bytes -= int64(f.space.blockBytes)
}

func (p *prefetcher) end(some []fetch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range some {
		p.endLocked(&some[i])
	}
}

// fetch reads a chunk when its turn has come.
func (p *prefetcher) fetch(d *drive, some []fetch) {
	s := some[0].space
	part := s.part(some[0].key)
	nBytes := int64(len(some)) * int64(s.blockBytes)
	read := 0
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.counts.Read += uint64(read)
		p.counts.Cancelled += uint64(len(some) - read)
	}()
	turn, ok := d.enter(part.flow, &stream{}, prefetches, nBytes, p.over)
	if !ok {
		return
	}
	defer func() { d.leave(turn, s.blockBytes, int64(read)*int64(s.blockBytes)) }()
	items, frames, of := p.rooms(some)
	if len(items) == 0 {
		return
	}
	err := part.ns.Get(items, engine.GetOptions{NoTouch: true, Done: p.over, Released: func(j int) { frames[j].Release() }})
	for j := len(items) - 1; j >= 0; j-- { // tail first: a leaf ages before its parent
		switch {
		case err == nil && items[j].Status == engine.Late: // the store has the frame still
		case err == nil && items[j].Status == engine.Hit:
			p.node.memory.Add(items[j].Version, frames[j], uint32(s.number), some[of[j]].depth, 0, memory.Ahead)
			read++
		default:
			frames[j].Release()
		}
	}
}

// rooms finds frames for a chunk, as far as there are some; of says which block each
// is for. Blocks that have come into memory meanwhile, or have gone, need none.
func (p *prefetcher) rooms(some []fetch) (items []engine.GetItem, frames []arena.Frame, of []int) {
	s := some[0].space
	now := time.Now()
	for i := range some {
		f := &some[i]
		if !p.stands(f.version) || !f.due(now) || p.node.memory.Keep(f.version) {
			continue
		}
		frame, ok := p.node.memory.Room(s.blockBytes)
		if !ok {
			break
		}
		items = append(items, engine.GetItem{Key: f.key, Dst: [][]byte{frame.Bytes()}})
		frames, of = append(frames, frame), append(of, i)
	}
	return items, frames, of
}
