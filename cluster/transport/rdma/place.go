package rdma

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// place finds room for a fetch, and waits for it. Without an error a nil request says that
// the fetch has to go by the control; with one, which is the context's, all blocks are Late.
func (l *Link) place(ctx context.Context, s *session, body []byte, f *transport.Fetching) (*request, error) {
	r := &request{s: s, f: f, known: l.t.regions.list(), blocks: make([]placed, len(f.Blocks)), wake: make(chan struct{}, 1)}
	landing, targets := 0, 0
	for i := range f.Blocks {
		n := 0
		for _, p := range f.Blocks[i].Dst {
			n += len(p)
		}
		if n > blockBytesMax {
			return nil, nil
		}
		b := &r.blocks[i]
		b.size, b.offset = uint32(n), direct
		r.nBytes += int64(n)
		if r.known.landable(f.Blocks[i].Dst) {
			targets += len(f.Blocks[i].Dst)
			continue
		}
		b.offset = landing
		landing += (n + alignBytes - 1) / alignBytes * alignBytes
		targets += 2 + n/landingUnitBytes
	}
	switch {
	case len(f.Blocks) > min(s.linesMax, blocksMax) || r.nBytes > s.most || !l.t.landing.holds(landing):
		return nil, nil
	case len(body)+len(f.Blocks)*wantedBytes+targets*targetBytes > requestBytesMax:
		return nil, nil
	}
	if landing > 0 {
		if r.berth = l.berth(ctx, landing); r.berth == nil {
			return nil, nil
		}
	}
	if err := r.reserve(ctx); err != nil {
		if r.berth != nil {
			r.berth.free()
		}
		return nil, r.allLate(err)
	}
	return r, nil
}

// landingTime is how long a fetch waits for landing memory, and no longer than an eighth of its
// time: fetches that are answered give theirs back within that, and one that hangs is to hold
// up others for no longer.
const landingTime = 5 * time.Millisecond

// berth takes landing memory for so many bytes, and waits a moment for it; nil: there is none.
func (l *Link) berth(ctx context.Context, nBytes int) *berth {
	if b := l.t.landing.take(nBytes); b != nil {
		return b
	}
	most := landingTime
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/8)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	b, err := l.t.landing.wait(ctx, nBytes)
	if err != nil {
		return nil // the control knows what to do with a fetch whose time is over
	}
	return b
}

// alignBytes is what blocks in a berth begin at.
const alignBytes = 64

// reserve waits for lines and for bytes.
func (r *request) reserve(ctx context.Context) error {
	if err := r.s.bytes.Acquire(ctx, r.nBytes); err != nil {
		return err
	}
	if err := r.s.lines.Acquire(ctx, int64(len(r.blocks))); err != nil {
		r.s.bytes.Release(r.nBytes)
		return err
	}
	return nil
}

// allLate answers all blocks of a fetch that never began.
func (r *request) allLate(err error) error {
	var told releases
	for i := range r.f.Blocks {
		r.f.Blocks[i].Status = transport.Late
		told = append(told, released{r, i})
	}
	told.tell()
	return err
}

// enter gives the request a number, and each block a rail and a line of its result table, with
// receives posted for them; false: the session has failed meanwhile.
func (r *request) enter(m *fetchRequest) bool {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		s.lines.Release(int64(len(r.blocks)))
		return false
	}
	for i := range r.blocks {
		b := &r.blocks[i]
		b.rail, b.open = s.lightestLocked(), true
		b.line, b.generation = b.rail.takeLocked(r, i)
		b.rail.underway += int64(b.size)
		r.open++
	}
	for _, rail := range s.rails {
		if err := rail.postLocked(); err != nil {
			s.failLocked(fmt.Errorf("post receives to %s: %w", rail.port.info.Name(), err))
			s.withdrawLocked(r)
			return false
		}
	}
	s.last++
	r.number = s.last
	s.requests[r.number] = r
	s.running.Add(1) // its call
	m.request, m.oldest = r.number, s.oldestLocked()
	return true
}

// aim says in the message where the blocks go.
func (r *request) aim(m *fetchRequest) {
	var to []target
	for i := range r.blocks {
		b, w := &r.blocks[i], &m.blocks[i]
		pieces := r.f.Blocks[i].Dst
		if b.offset != direct {
			pieces = r.berth.pieces(b.offset, int(b.size))
		}
		first := len(to)
		to = r.known.targets(to, b.rail.port.index, pieces)
		w.size, w.rail, w.line, w.generation = b.size, b.rail.number, b.line, b.generation
		w.pieces = to[first:len(to):len(to)]
	}
}

// lightestLocked is the rail with the fewest bytes under way that has a line free. There is
// one: who enters has a ticket for each line.
func (s *session) lightestLocked() *rail {
	var best *rail
	for _, r := range s.rails {
		if len(r.free) > 0 && (best == nil || r.underway < best.underway) {
			best = r
		}
	}
	return best
}

// takeLocked gives a line to a block.
func (r *rail) takeLocked(q *request, block int) (number uint16, generation uint32) {
	n := len(r.free) - 1
	number = r.free[n]
	r.free = r.free[:n]
	l := &r.lines[number]
	l.request, l.block, l.generation = q, int32(block), (l.generation+1)%generationEnd
	return number, l.generation
}
