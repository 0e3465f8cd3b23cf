package sim

import (
	"context"
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// conn is a link with both its ends.
type conn struct {
	net     *Network
	version uint8
	hello   [2]transport.Hello // of the node at each end
	ends    [2]*end            // the dialler's, the server's
	running [2]sync.WaitGroup  // what is under way for each end
}

// end is a link as one of its nodes sees it. It is closed on its own; the other end
// learns of it a delay later, when bytes can pass.
type end struct {
	conn  *conn
	side  int
	node  *Node
	ctx   context.Context // ends with the end
	stop  context.CancelCauseFunc
	begin sync.Mutex // held to add to running, and to close
}

const (
	dialler = 0
	server  = 1
)

// connect makes a link between two nodes, unless one of them has gone meanwhile.
func (d *Node) connect(to *Node, self transport.Hello) (*link, error) {
	c := &conn{net: d.net, version: common(self, to.self), hello: [2]transport.Hello{self, to.self}}
	for side, node := range [2]*Node{d, to} {
		e := &end{conn: c, side: side, node: node}
		e.ctx, e.stop = context.WithCancelCause(context.Background())
		c.ends[side] = e
	}
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.fate != alive || to.fate != alive {
		return nil, lost(context.Background(), errClosed)
	}
	d.ends[c.ends[dialler]], to.ends[c.ends[server]] = struct{}{}, struct{}{}
	return &link{c.ends[dialler]}, nil
}

// close ends this end, and tells the other.
func (e *end) close(cause error) {
	n := e.conn.net
	e.begin.Lock()
	first := e.ctx.Err() == nil
	e.stop(cause)
	e.begin.Unlock()
	if !first {
		return
	}
	other := e.conn.ends[1-e.side]
	n.mu.Lock()
	delete(e.node.ends, e)
	n.counts.Broken++
	tell := e.node.fate != vanished && !n.closed
	if tell {
		n.tellings.Add(1)
	}
	n.mu.Unlock()
	n.trace("link %s - %s is over at %s: %v", e.conn.hello[dialler].Name, e.conn.hello[server].Name, e.node.address, cause)
	if tell {
		go func() {
			defer n.tellings.Done()
			n.tellEnd(e, other)
		}()
	}
}

// tellEnd carries the end of a link to its other end.
func (n *Network) tellEnd(e, other *end) {
	if sleep(n.delay(e.node.address, other.node.address, 0), []context.Context{other.ctx}) != nil {
		return
	}
	for {
		n.mu.Lock()
		a, b := e.node.address, other.node.address
		passes := !n.cut[[2]string{a, b}] && !n.frozen[a] && !n.frozen[b]
		changed := n.changed
		n.mu.Unlock()
		if passes {
			other.close(transport.ErrLost)
			return
		}
		if n.held(changed, nil, false, []context.Context{other.ctx}) != nil {
			return
		}
	}
}

// run starts a goroutine of this end; false if the end is over.
func (e *end) run(f func()) bool {
	e.begin.Lock()
	defer e.begin.Unlock()
	if e.ctx.Err() != nil {
		return false
	}
	e.conn.running[e.side].Go(f)
	return true
}

// carry takes bytes from this end to the other. Bytes that were held for too long end
// the link.
func (e *end) carry(nBytes int, also ...context.Context) error {
	other := e.conn.ends[1-e.side]
	err := e.conn.net.carry(e.node, other.node, nBytes, append([]context.Context{e.ctx}, also...)...)
	if err != nil {
		if err == errSilent || err == errReset {
			e.close(err)
		}
		return err
	}
	if other.ctx.Err() != nil { // it arrives where nobody is any more
		return transport.ErrLost
	}
	return nil
}

// link is the dialler's end, as transport.Link.
type link struct{ *end }

var _ transport.Link = (*link)(nil)

// Peer is who answered.
func (l *link) Peer() transport.Hello { return l.conn.hello[server] }

// Version is the protocol that both speak.
func (l *link) Version() uint8 { return l.conn.version }

// Gone is closed when this end is over.
func (l *link) Gone() <-chan struct{} { return l.ctx.Done() }

// Close ends the link.
func (l *link) Close() error {
	l.close(errClosed)
	l.conn.running[dialler].Wait()
	return nil
}

// exchange is one call: its request goes to the server, is served, and the answer comes
// back, all beside the caller, who may have given it up.
type exchange struct {
	l      *link
	from   *end // the server's
	ctx    context.Context
	cancel context.CancelCauseFunc
	answer chan outcome // one
}

type outcome struct {
	answer []byte
	err    error
}

// serving is what a call does at the server.
type serving func(x *exchange, h transport.Handler, from transport.Hello) ([]byte, error)

// exchange begins a call of so many bytes, which serve carries out at the server; nil if
// the link is over. ended is called when nothing of the call can reach its caller any more.
func (l *link) exchange(nBytes int, serve serving, ended func()) *exchange {
	x := &exchange{l: l, from: l.conn.ends[server], answer: make(chan outcome, 1)}
	x.ctx, x.cancel = context.WithCancelCause(x.from.ctx)
	d := x.from.node
	begun := l.run(func() {
		defer ended()
		if l.carry(nBytes) != nil || !d.begin() {
			x.cancel(nil)
			return
		}
		served := make(chan struct{})
		go func() {
			defer d.running.Done()
			defer close(served)
			x.serve(d.handler, serve)
		}()
		select {
		case <-served:
		case <-l.ctx.Done():
		}
	})
	if !begun {
		x.cancel(nil)
		return nil
	}
	return x
}

// serve runs a call at the server, and sends the answer.
func (x *exchange) serve(h transport.Handler, serve serving) {
	defer x.cancel(nil)
	n := x.l.conn.net
	n.count(func(c *Counts) { c.Messages++ })
	out, err := x.guarded(h, serve)
	if err != nil {
		out, err = nil, remote(err, transport.CodeInternal)
	}
	if x.from.carry(len(out), x.l.ctx) == nil {
		n.count(func(c *Counts) { c.Messages++ })
		x.answer <- outcome{out, err}
	}
}

// guarded turns a panic into an error.
func (x *exchange) guarded(h transport.Handler, serve serving) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return serve(x, h, x.l.conn.hello[dialler])
}

// giveUp tells the server that the caller is gone.
func (x *exchange) giveUp(cause error) {
	x.l.run(func() {
		if x.l.carry(0) == nil {
			x.cancel(cause)
		}
	})
}

// wait waits for the answer.
func (x *exchange) wait(ctx context.Context) ([]byte, error) {
	select {
	case o := <-x.answer:
		return o.answer, o.err
	case <-ctx.Done():
		x.giveUp(context.Cause(ctx))
		return nil, context.Cause(ctx)
	case <-x.l.ctx.Done():
		return nil, lost(ctx, context.Cause(x.l.ctx))
	}
}

// Call sends body and returns the answer.
func (l *link) Call(ctx context.Context, kind transport.Kind, body []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	body = append([]byte(nil), body...)
	x := l.exchange(len(body), func(x *exchange, h transport.Handler, from transport.Hello) ([]byte, error) {
		return h.Call(x.ctx, from, kind, body)
	}, func() {})
	if x == nil {
		return nil, lost(ctx, context.Cause(l.ctx))
	}
	return x.wait(ctx)
}
