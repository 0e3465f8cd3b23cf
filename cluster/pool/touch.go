package pool

import (
	"context"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// release ends leases at other nodes. It does not wait; a node that does not hear of it
// ends the lease by its time.
func (p *Pool) release(leases []farLease) {
	for _, l := range leases {
		p.spawn(func() {
			ctx, cancel := context.WithTimeout(l.remote.ctx, p.probeTime())
			defer cancel()
			_ = l.remote.timed(ctx, func(link transport.Link) error {
				_, err := link.Call(ctx, peer.KindRelease, peer.AppendRelease(nil, l.number))
				return err
			})
		})
	}
}

// Touch makes blocks young again at the nodes that are remembered to have them, root
// first, and returns of how many that is. It does not wait.
func (p *Pool) Touch(of Of, ids []ID) (known int) {
	now, byNode := p.peers.reachable(), map[*remote][]ID{}
	for i := range ids {
		at := now.hinted(p.hints, &ids[i])
		if at.Known() {
			known++
		}
		for _, number := range at {
			if r := now[number]; r != nil {
				byNode[r] = append(byNode[r], ids[i])
			}
		}
	}
	for r, own := range byNode {
		p.spawn(func() {
			ctx, cancel := context.WithTimeout(r.ctx, p.probeTime())
			defer cancel()
			_, _ = r.call(ctx, of, peer.KindTouch, peer.AppendTouch(nil, own)) // counted; an age is no matter
		})
	}
	return known
}

// serveTouch makes blocks young again.
func (p *Pool) serveTouch() {
	p.servers[peer.KindTouch].call = func(_ context.Context, from transport.Hello, body []byte) ([]byte, error) {
		m, err := peer.ParseTouch(body)
		if err != nil {
			return nil, err
		}
		space, err := p.admit(from, &m.Scope)
		if err == nil {
			space.Touch(m.IDs)
		}
		return nil, err
	}
}
