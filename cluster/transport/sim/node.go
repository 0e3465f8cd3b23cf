package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/transport"
)

type fate uint8

const (
	alive fate = iota
	closed
	killed
	vanished
)

func (f fate) String() string { return [...]string{"alive", "closed", "killed", "vanished"}[f] }

// Node is a transport of a Network.
type Node struct {
	net     *Network
	address string
	budget  *semaphore.Weighted // bytes of blocks in flight

	// guarded by Network.mu
	fate    fate
	ends    map[*end]struct{}
	self    transport.Hello
	handler transport.Handler

	serving chan struct{} // closed when there is a handler
	over    context.Context
	end     context.CancelCauseFunc // of over
	running sync.WaitGroup          // handlers, and blocks that they send
}

var _ transport.Transport = (*Node)(nil)

// errClosed ends what a closed node has under way.
var errClosed = errors.New("the transport is closed")

// Node makes the node of an address, in place of one that is closed or dead. A living one
// keeps it: that is an error.
func (n *Network) Node(address string) (*Node, error) {
	d := &Node{net: n, address: address, budget: semaphore.NewWeighted(n.c.BytesInFlightMax),
		ends: map[*end]struct{}{}, serving: make(chan struct{})}
	d.over, d.end = context.WithCancelCause(context.Background())
	var err error
	n.change(func() {
		if old := n.nodes[address]; old != nil && old.fate == alive {
			err = fmt.Errorf("address %s is in use", address)
			return
		}
		n.nodes[address] = d
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Name is "sim".
func (d *Node) Name() string { return "sim" }

// Address is the one given to Network.Node.
func (d *Node) Address() net.Addr { return addr(d.address) }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

// Serve answers peers until Close.
func (d *Node) Serve(self transport.Hello, h transport.Handler) error {
	d.net.mu.Lock()
	switch {
	case d.over.Err() != nil:
		d.net.mu.Unlock()
		return nil
	case d.handler != nil:
		d.net.mu.Unlock()
		return errors.New("the transport serves already")
	}
	d.self, d.handler = self, h
	close(d.serving)
	d.net.mu.Unlock()
	<-d.over.Done()
	return nil
}

// Close ends all links and waits for handlers.
func (d *Node) Close() error {
	d.net.mu.Lock()
	if d.fate == alive {
		d.fate = closed
	}
	d.end(errClosed)
	ends := d.endsLocked()
	d.net.mu.Unlock()
	d.net.change(func() {})
	for _, e := range ends {
		e.close(errClosed)
		e.conn.running[e.side].Wait()
	}
	d.running.Wait()
	return nil
}

func (d *Node) endsLocked() []*end {
	ends := make([]*end, 0, len(d.ends))
	for e := range d.ends {
		ends = append(ends, e)
	}
	return ends
}

// begin enters a handler, unless the node has been closed.
func (d *Node) begin() bool {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.over.Err() != nil {
		return false
	}
	d.running.Add(1)
	return true
}

// Dial makes a link to the node that answers at address.
func (d *Node) Dial(ctx context.Context, address string, self transport.Hello) (transport.Link, error) {
	l, err := d.dial(ctx, address, self)
	d.net.count(func(c *Counts) {
		if err != nil {
			c.Refused++
			return
		}
		c.Dials++
	})
	d.net.trace("dial %s > %s: %v", d.address, address, err)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *Node) dial(ctx context.Context, address string, self transport.Hello) (*link, error) {
	n := d.net
	if err := d.aliveErr(); err != nil {
		return nil, err
	}
	to, err := n.find(ctx, d, address)
	if err != nil {
		return nil, lost(ctx, err)
	}
	if err := n.carry(d, to, helloBytes, ctx, d.over); err != nil {
		return nil, lost(ctx, err)
	}
	select {
	case <-to.serving:
	case <-to.over.Done():
		return nil, lost(ctx, errClosed)
	case <-d.over.Done():
		return nil, lost(ctx, errClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	word := to.judge(self)
	if err := n.carry(to, d, helloBytes, ctx, d.over); err != nil {
		return nil, lost(ctx, err)
	}
	if word != nil {
		return nil, word
	}
	return d.connect(to, self)
}

// find waits until somebody answers at address, or refuses.
func (n *Network) find(ctx context.Context, from *Node, address string) (*Node, error) {
	for {
		n.mu.Lock()
		to, changed := n.nodes[address], n.changed
		n.mu.Unlock()
		if to == nil || to.fateNow() == closed || to.fateNow() == killed {
			if err := sleep(2*n.delay(from.address, address, 0), []context.Context{ctx, from.over}); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%s refuses", address)
		}
		if to.fateNow() == alive {
			return to, nil
		}
		select { // a machine without power
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-from.over.Done():
			return nil, context.Cause(from.over)
		}
	}
}

// helloBytes is what a greeting takes on the way.
const helloBytes = 128

// lost is the error of a dial or call that failed: the context's, or ErrLost.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", transport.ErrLost, err)
}

func (d *Node) fateNow() fate {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	return d.fate
}

func (d *Node) aliveErr() error {
	if d.fateNow() != alive {
		return fmt.Errorf("%w: %w", transport.ErrLost, errClosed)
	}
	return nil
}

// judge is a server's word on who connects.
func (d *Node) judge(h transport.Hello) error {
	switch {
	case h.PoolID != d.self.PoolID:
		return fmt.Errorf("%w: it is of pool %q, this one of %q", transport.ErrForeign, d.self.PoolID, h.PoolID)
	case common(h, d.self) == 0:
		return fmt.Errorf("%w: %d to %d, and the peer %d to %d", transport.ErrVersion,
			h.ProtocolLow, h.ProtocolHigh, d.self.ProtocolLow, d.self.ProtocolHigh)
	}
	if !d.begin() {
		return lost(context.Background(), errClosed)
	}
	defer d.running.Done()
	if err := d.handler.Hello(h); err != nil {
		return remote(err, transport.CodeDenied)
	}
	return nil
}

// common is the version that both speak, 0 if there is none.
func common(a, b transport.Hello) uint8 {
	if v := min(a.ProtocolHigh, b.ProtocolHigh); v >= max(a.ProtocolLow, b.ProtocolLow) {
		return v
	}
	return 0
}

// remote is a handler's error as its caller sees it.
func remote(err error, code transport.Code) error {
	if r, ok := errors.AsType[*transport.RemoteError](err); ok {
		return &transport.RemoteError{Code: r.Code, Text: r.Text}
	}
	return &transport.RemoteError{Code: code, Text: err.Error()}
}
