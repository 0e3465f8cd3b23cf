package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// sendsMax is how many writes are posted on a queue pair at once.
const sendsMax = 256

// open makes a session for a peer.
func (s *serving) open(ctx context.Context, from transport.Hello, body []byte) ([]byte, error) {
	m, err := parseOpen(body)
	if err != nil {
		return nil, err
	}
	g := newGuest(s, from, m.lines)
	if err := s.enter(g); err != nil {
		return nil, err
	}
	answer := openAnswer{session: g.number, inFlight: uint64(s.t.o.InFlight)}
	rails := make([]*sender, len(m.rails))
	var whyNot []error
	for i := range m.rails {
		end := endpoint{}
		d, err := s.rail(g, &m.rails[i])
		if err == nil {
			rails[i] = d
			end = d.port.endpoint(d.pair.Local())
		} else {
			whyNot = append(whyNot, fmt.Errorf("rail %d: %w", i, err))
		}
		answer.rails = append(answer.rails, end)
	}
	switch {
	case len(whyNot) == len(rails):
		s.forget(g)
		return nil, &transport.RemoteError{Code: transport.CodeInternal, Text: cut(fmt.Sprintf("no RDMA port of this node can be used: %v", errors.Join(whyNot...)), errorBytesMax)}
	case len(whyNot) > 0:
		s.t.o.Logger.Debug("an RDMA session has fewer rails than asked for", "peer", from.Name, "err", errors.Join(whyNot...))
	}
	if err := g.start(rails); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // nobody will hold it
		g.fail(errGivenUp)
	}
	return answer.append(nil), nil
}

// rail makes the queue pair for one of the caller's, and connects it.
func (s *serving) rail(g *guest, caller *callerRail) (*sender, error) {
	p, err := s.portFor(&caller.end)
	if err != nil {
		return nil, err
	}
	sends := sendsMax
	if most := p.info.Limits.SendsMax; most > 0 {
		sends = min(sends, most)
	}
	if sends < 2*marksAtOnce {
		p.rails.Add(-1)
		return nil, fmt.Errorf("%s: only %d writes can be posted at once", p.info.Name(), sends)
	}
	pair, err := p.device.NewQueuePair(fabric.QueueOptions{Sends: sends, Receives: 1})
	if err != nil {
		p.rails.Add(-1)
		return nil, fmt.Errorf("%s: %w", p.info.Name(), err)
	}
	d := newSender(g, p, pair, caller, sends)
	if err := pair.Connect(caller.end.Endpoint, s.t.o.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.info.Name(), err), d.destroy())
	}
	return d, nil
}

// portFor chooses the port for a rail of a caller, and counts the rail.
func (s *serving) portFor(end *endpoint) (*port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *port
	bestNear := false
	for _, p := range s.t.ports {
		if p.broken.Load() || p.info.Ethernet != end.Ethernet {
			continue
		}
		near := end.near(p.gid.Address)
		if best == nil || near && !bestNear || near == bestNear && p.rails.Load() < best.rails.Load() {
			best, bestNear = p, near
		}
	}
	if best == nil {
		kind := "InfiniBand"
		if end.Ethernet {
			kind = "Ethernet"
		}
		return nil, fmt.Errorf("no port for one of %s at %v", kind, netip.AddrFrom16(end.GID.As16()))
	}
	best.rails.Add(1)
	return best, nil
}
