package pool

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// serveGet sends blocks.
func (p *Pool) serveGet() {
	p.servers[peer.KindGet].fetch = func(ctx context.Context, from transport.Hello, body []byte, n int, r transport.Reply) ([]byte, error) {
		m, err := peer.ParseGet(body)
		if err == nil && len(m.IDs) != n {
			err = fmt.Errorf("%w: %d IDs for %d blocks", peer.ErrMalformed, len(m.IDs), n)
		}
		var space Space
		if err == nil {
			space, err = p.admit(from, &m.Scope)
		}
		if err != nil {
			refuseAll(r, n)
			return nil, err
		}
		sent := p.send(ctx, space, &m, r)
		if asker := p.peers.of(from.Node); asker != nil {
			asker.counts.served.Add(uint64(sent))
		}
		return nil, nil
	}
}

// send answers every block of a Get, and returns how many it has sent.
func (p *Pool) send(ctx context.Context, space Space, m *peer.Get, r transport.Reply) int {
	sent := make([]atomic.Bool, len(m.IDs))
	space.Read(ctx, m.IDs, func(i int, pieces [][]byte, checksum uint64, done func()) {
		sent[i].Store(true)
		r.Block(i, pieces, checksum, done)
	})
	rest := transport.Miss
	if ctx.Err() != nil {
		rest = transport.Refused
	}
	found := make([]ID, 0, len(m.IDs))
	for i := range sent {
		if sent[i].Load() {
			found = append(found, m.IDs[i])
		} else {
			r.None(i, rest)
		}
	}
	if m.Flags&peer.GetNoTouch == 0 && len(found) > 0 {
		space.Touch(found)
	}
	return len(found)
}
