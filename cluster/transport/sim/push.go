package sim

import (
	"context"
	"errors"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Push sends blocks.
func (l *link) Push(ctx context.Context, kind transport.Kind, body []byte, blocks [][][]byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	in := &incoming{l: l, blocks: blocks}
	nBytes := int64(0)
	for _, b := range blocks {
		in.sizes = append(in.sizes, bytesOf(b))
		nBytes += int64(bytesOf(b))
	}
	nBytes = min(nBytes, l.conn.net.c.BytesInFlightMax)
	if err := l.node.budget.Acquire(ctx, nBytes); err != nil {
		return nil, context.Cause(ctx)
	}
	if l.conn.net.chance(0.5) { // as in buffers of the sender's kernel: they outlive the call
		in.keep()
	}
	body = append([]byte(nil), body...)
	x := l.exchange(len(body), func(x *exchange, h transport.Handler, from transport.Hello) ([]byte, error) {
		in.x = x
		return h.Push(x.ctx, from, kind, body, in)
	}, func() {
		in.end(true)
		l.node.budget.Release(nBytes)
	})
	if x == nil {
		l.node.budget.Release(nBytes)
		return nil, lost(ctx, context.Cause(l.ctx))
	}
	answer, err := x.wait(ctx)
	in.end(false)
	return answer, err
}

// incoming is a Push on the side that receives it.
type incoming struct {
	l     *link
	x     *exchange
	sizes []int
	next  int // block to receive

	mu     sync.Mutex
	blocks [][][]byte // the sender's memory, or a copy
	kept   bool       // it is a copy
	over   bool       // they are not to be touched any more
}

var (
	errTruncated = errors.New("the network cut a block off")
	errGivenUp   = errors.New("the sender has given up")
)

// keep copies the blocks.
func (in *incoming) keep() {
	own := make([][][]byte, len(in.blocks))
	for i, b := range in.blocks {
		for _, p := range b {
			own[i] = append(own[i], append([]byte(nil), p...))
		}
	}
	in.blocks, in.kept = own, true
}

// end lets go of the sender's memory. A copy lives until all is over.
func (in *incoming) end(all bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over = in.over || all || !in.kept
}

// Blocks is how many there are.
func (in *incoming) Blocks() int { return len(in.sizes) }

// BlockBytes is the size of block i.
func (in *incoming) BlockBytes(i int) int { return in.sizes[i] }

// Receive reads the next block.
func (in *incoming) Receive(dst [][]byte) error {
	i := in.next
	if i >= len(in.sizes) {
		panic("more blocks are received than were pushed")
	}
	in.next++
	nBytes := in.sizes[i]
	if dst != nil && bytesOf(dst) != nBytes {
		panic("a block of a Push has another size than its place")
	}
	n := in.l.conn.net
	damage, half := n.damage(), nBytes/2
	if err := in.part(i, dst, 0, half, false); err != nil {
		return err
	}
	if damage == truncated {
		n.count(func(c *Counts) { c.Truncated++ })
		in.x.from.close(errTruncated)
		return lost(context.Background(), errTruncated)
	}
	if err := in.part(i, dst, half, nBytes, damage == damaged); err != nil {
		return err
	}
	n.count(func(c *Counts) {
		c.Blocks++
		c.BlockBytes += uint64(nBytes)
		if damage == damaged {
			c.Damaged++
		}
	})
	return nil
}

// part carries a part of block i, and brings it into dst.
func (in *incoming) part(i int, dst [][]byte, from, to int, flip bool) error {
	if err := in.l.carry(to-from, in.x.from.ctx); err != nil {
		return lost(context.Background(), err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return lost(context.Background(), errGivenUp)
	}
	if dst == nil {
		return nil
	}
	copyPart(dst, in.blocks[i], from, to)
	if flip && to > from {
		flipByte(dst, (from+to)/2)
	}
	return nil
}
