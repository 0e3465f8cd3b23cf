package tcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// push is a Push under way.
type push struct {
	l      *Link
	c      *call
	blocks []memory
	using  sync.WaitGroup // blocks that are not free yet

	mu      sync.Mutex
	allowed int // blocks that the peer has room for
	closed  bool
}

// Push implements transport.Link.
func (l *Link) Push(ctx context.Context, kind transport.Kind, body []byte, blocks [][][]byte) ([]byte, error) {
	sizes, err := sizesOf(blocks)
	if err == nil && len(body) > BodyBytesMax {
		err = tooLong(body)
	}
	if err != nil {
		return nil, err
	}
	c := &call{}
	p := &push{l: l, c: c, blocks: make([]memory, len(blocks))}
	c.push = p
	for i := range blocks {
		m := &p.blocks[i]
		m.pieces, m.freed = blocks[i], func(int) { p.using.Done() }
	}
	release, err := l.begin(ctx, c, sizes, body)
	if err != nil {
		return nil, err
	}
	defer release()
	p.using.Add(len(blocks))
	defer p.close()
	l.ask(ctx, c, typePush, kind, sizes, body)
	return l.await(ctx, c)
}

func sizesOf(blocks [][][]byte) ([]uint32, error) {
	if len(blocks) > BlocksMax {
		return nil, fmt.Errorf("a push of %d blocks, at most %d are allowed", len(blocks), BlocksMax)
	}
	sizes := make([]uint32, len(blocks))
	for i, pieces := range blocks {
		n := sizeOf(pieces)
		if n > BlockBytesMax {
			return nil, fmt.Errorf("a block of %d bytes, at most %d are allowed", n, BlockBytesMax)
		}
		sizes[i] = uint32(n)
	}
	return sizes, nil
}

// allow queues blocks that the peer has room for.
func (p *push) allow(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n <= p.allowed || n > len(p.blocks) {
		return malformed("%d blocks may come, after %d of %d", n, p.allowed, len(p.blocks))
	}
	for ; p.allowed < n && !p.closed; p.allowed++ {
		m := &p.blocks[p.allowed]
		p.l.blocks.add(&item{m: m, h: header{
			Type: typeData, Call: p.c.number, Index: uint32(p.allowed), Total: uint32(sizeOf(m.pieces)),
		}})
	}
	return nil
}

// close waits until no memory is in use, which no peer can delay.
func (p *push) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.l.blocks.drop(p.c.number)
	for i := range p.blocks {
		p.blocks[i].close()
	}
	p.using.Wait()
}
