package sim

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// landing is the memory of one Fetch, where blocks arrive.
type landing struct {
	released func(i int)
	news     chan int // blocks that were answered, each once

	mu     sync.Mutex
	blocks []landed
	over   bool // nothing touches any dst any more
	tarry  bool // what is late may still arrive
}

// landed is one block of a landing.
type landed struct {
	dst      [][]byte
	nBytes   int
	checksum uint64
	status   transport.Status
	told     bool // to the caller; its goroutine's own
	late     bool // answered Late, and not released yet
}

// Fetch asks for blocks.
func (l *link) Fetch(ctx context.Context, kind transport.Kind, body []byte, f *transport.Fetching) ([]byte, error) {
	g := &landing{released: f.Released, blocks: make([]landed, len(f.Blocks)),
		news: make(chan int, len(f.Blocks)), tarry: l.conn.net.chance(0.5)}
	nBytes := int64(0)
	for i := range g.blocks {
		g.blocks[i] = landed{dst: slices.Clone(f.Blocks[i].Dst), nBytes: bytesOf(f.Blocks[i].Dst)}
		nBytes += int64(g.blocks[i].nBytes)
	}
	nBytes = min(nBytes, l.conn.net.c.BytesInFlightMax)
	if err := l.node.budget.Acquire(ctx, nBytes); err != nil {
		g.finish()
		return nil, g.settle(ctx, f, context.Cause(ctx))
	}
	body = append([]byte(nil), body...)
	x := l.exchange(len(body), func(x *exchange, h transport.Handler, from transport.Hello) ([]byte, error) {
		r := &reply{x: x, g: g, given: make([]bool, len(g.blocks))}
		defer r.close()
		return h.Fetch(x.ctx, from, kind, body, len(g.blocks), r)
	}, func() {
		g.finish()
		l.node.budget.Release(nBytes)
	})
	if x == nil {
		l.node.budget.Release(nBytes)
		g.finish()
		return nil, g.settle(ctx, f, lost(ctx, context.Cause(l.ctx)))
	}
	answer, err := g.wait(ctx, x, f)
	return answer, g.settle(ctx, f, err)
}

// wait waits for the answer, and tells the caller of blocks meanwhile.
func (g *landing) wait(ctx context.Context, x *exchange, f *transport.Fetching) ([]byte, error) {
	for {
		select {
		case i := <-g.news:
			g.mu.Lock()
			f.Blocks[i].Status, f.Blocks[i].Checksum = g.blocks[i].status, g.blocks[i].checksum
			g.mu.Unlock()
			g.tell(f, i)
		case o := <-x.answer:
			return o.answer, o.err
		case <-ctx.Done():
			x.giveUp(context.Cause(ctx))
			return nil, context.Cause(ctx)
		case <-x.l.ctx.Done():
			return nil, lost(ctx, context.Cause(x.l.ctx))
		}
	}
}

// tell tells the caller of a block that has been answered.
func (g *landing) tell(f *transport.Fetching, i int) {
	if s := f.Blocks[i].Status; f.Arrived == nil || g.blocks[i].told || s == transport.Late || s == transport.Lost {
		return
	}
	g.blocks[i].told = true
	f.Arrived(i)
}

// settle gives every block its status, and returns err.
func (g *landing) settle(ctx context.Context, f *transport.Fetching, err error) error {
	s := transport.Miss
	switch {
	case errors.Is(err, transport.ErrLost):
		s = transport.Lost
	case err != nil && ctx.Err() != nil:
		s = transport.Late
	case err != nil:
		s = transport.Refused
	}
	var free []int
	g.mu.Lock()
	g.over = g.over || s != transport.Late || !g.tarry
	for i := range g.blocks {
		b := &g.blocks[i]
		if b.status == transport.Unanswered {
			b.status, b.late = s, s == transport.Late && !g.over
			if s == transport.Late && g.over {
				free = append(free, i)
			}
		}
		f.Blocks[i].Status, f.Blocks[i].Checksum = b.status, b.checksum
	}
	g.mu.Unlock()
	g.release(free)
	for i := range f.Blocks {
		g.tell(f, i)
	}
	return err
}

// finish gives the memory of late blocks back: nothing is on its way any more.
func (g *landing) finish() {
	var free []int
	g.mu.Lock()
	g.over = true
	for i := range g.blocks {
		if b := &g.blocks[i]; b.late {
			b.late = false
			free = append(free, i)
		}
	}
	g.mu.Unlock()
	g.release(free)
}

func (g *landing) release(free []int) {
	for _, i := range free {
		g.released(i)
	}
}

// write brings a part of a block into its dst, if that is wanted.
func (g *landing) write(i int, pieces [][]byte, from, to int, flip bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.blocks[i]
	if g.over || b.status != transport.Unanswered && !b.late {
		return
	}
	copyPart(b.dst, pieces, from, to)
	if flip && to > from {
		flipByte(b.dst, (from+to)/2)
	}
}

// done answers a block that has arrived whole, or ends its lateness.
func (g *landing) done(i int, s transport.Status, checksum uint64) {
	g.mu.Lock()
	b := &g.blocks[i]
	late := b.late
	b.late = false
	if !g.over && b.status == transport.Unanswered {
		b.status, b.checksum = s, checksum
		g.news <- i
	}
	g.mu.Unlock()
	if late {
		g.released(i)
	}
}

// reply is a Fetch on the side that has the blocks.
type reply struct {
	x       *exchange
	g       *landing
	sending sync.WaitGroup

	mu     sync.Mutex
	given  []bool
	closed bool
}

// once checks that a block is answered once; false if nobody listens any more.
func (r *reply) once(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given[i] {
		panic("a block of a Fetch is answered twice")
	}
	r.given[i] = true
	if !r.closed {
		r.sending.Add(1)
	}
	return !r.closed
}

// close waits for the blocks that were sent; what comes later is not heard.
func (r *reply) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.sending.Wait()
}

// Block sends block i. One of another size than its place is missed.
func (r *reply) Block(i int, pieces [][]byte, checksum uint64, done func()) {
	if !r.once(i) {
		done()
		return
	}
	go func() {
		defer r.sending.Done()
		defer done()
		if nBytes := bytesOf(pieces); nBytes == r.g.blocks[i].nBytes {
			r.send(i, pieces, nBytes, checksum)
		} else if r.x.from.carry(nBytes, r.x.l.ctx) == nil {
			r.g.done(i, transport.Miss, 0)
		}
	}()
}

func (r *reply) send(i int, pieces [][]byte, nBytes int, checksum uint64) {
	n := r.x.l.conn.net
	damage, half := n.damage(), nBytes/2
	if r.x.from.carry(half, r.x.l.ctx) != nil {
		return
	}
	r.g.write(i, pieces, 0, half, false)
	if damage == truncated {
		n.count(func(c *Counts) { c.Truncated++ })
		r.x.from.close(errTruncated)
		return
	}
	if r.x.from.carry(nBytes-half, r.x.l.ctx) != nil {
		return
	}
	r.g.write(i, pieces, half, nBytes, damage == damaged)
	n.count(func(c *Counts) {
		c.Blocks++
		c.BlockBytes += uint64(nBytes)
		if damage == damaged {
			c.Damaged++
		}
	})
	r.g.done(i, transport.Done, checksum)
}

// None says that there is no block i to send.
func (r *reply) None(i int, s transport.Status) {
	if !r.once(i) {
		return
	}
	go func() {
		defer r.sending.Done()
		if r.x.from.carry(0, r.x.l.ctx) == nil {
			r.g.done(i, s, 0)
		}
	}()
}
