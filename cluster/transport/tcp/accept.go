package tcp

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// hear finds out who connects, and takes it in or turns it away.
func (t *Transport) hear(c *net.TCPConn) {
	stop := context.AfterFunc(t.ctx, func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(t.o.HelloTime)) // fails only when closed, as the read will
	attached := false
	defer func() {
		stop()
		if !attached {
			_ = c.Close()
			t.accepted.Add(-1)
		}
	}()
	socket, h, err := t.hello(c)
	if err != nil || !stop() {
		t.o.Logger.Debug("a connection was turned away", "from", c.RemoteAddr(), "err", err)
		return
	}
	_ = c.SetDeadline(time.Time{})
	if h.Part == partBlocks {
		attached, err = t.join(socket, &h)
	} else {
		attached, err = t.welcome(socket, &h)
	}
	if err != nil {
		t.o.Logger.Debug("a peer's connection failed", "from", c.RemoteAddr(), "err", err)
	}
}

// hello hears the first message and judges it. If it turns the peer away it has told it.
func (t *Transport) hello(c *net.TCPConn) (socket net.Conn, h hello, err error) {
	head := make([]byte, helloHeadBytes)
	if _, err := io.ReadFull(c, head); err != nil {
		t.counters.noise.Add(1)
		return nil, h, err
	}
	socket = c
	encrypted := head[0] == 0x16 // a record of TLS; magic begins otherwise
	switch {
	case encrypted && t.credentials == nil:
		t.counters.plain.Add(1)
		return nil, h, t.refuse(c, transport.CodeDenied, "the peer asks for TLS, which is off at %s", t.self.Name)
	case looksLikeHello(head) && t.credentials != nil:
		t.counters.plain.Add(1)
		return nil, h, t.refuse(c, transport.CodeDenied, "the peer speaks plain text; TLS is on at %s", t.self.Name)
	case t.credentials != nil:
		secure := tls.Server(&prefixed{TCPConn: c, head: head}, t.credentials.now().config())
		if err := secure.HandshakeContext(t.ctx); err != nil {
			t.counters.certificates.Add(1)
			t.counters.strangers.warn(t.o.Logger, "TLS with a peer failed", "from", c.RemoteAddr(), "err", err)
			return nil, h, err
		}
		head = make([]byte, helloHeadBytes)
		if _, err := io.ReadFull(secure, head); err != nil {
			t.counters.noise.Add(1)
			return nil, h, err
		}
		socket = secure
	}
	h, err = readHello(socket, head)
	switch {
	case errors.Is(err, transport.ErrVersion):
		t.counters.versions.Add(1)
		return nil, h, t.refuse(socket, transport.CodeDenied, "%v", err)
	case err != nil || h.Part > partBlocks:
		t.counters.noise.Add(1)
		return nil, h, errors.Join(err, malformed("no hello of one that asks"))
	}
	return socket, h, t.judge(socket, &h)
}

// judge turns away who may not be here.
func (t *Transport) judge(socket net.Conn, h *hello) error {
	if secure, ok := socket.(*tls.Conn); ok {
		if err := t.credentials.check(secure, x509.ExtKeyUsageClientAuth, h.Name); err != nil {
			t.counters.certificates.Add(1)
			t.counters.strangers.warn(t.o.Logger, "a peer's certificate is refused", "peer", h.Name, "from", socket.RemoteAddr(), "err", err)
			return t.refuse(socket, transport.CodeDenied, "%s refuses what %s shows: %v", t.self.Name, h.Name, err)
		}
	}
	if h.PoolID != t.self.PoolID {
		t.counters.foreign.Add(1)
		return t.refuse(socket, transport.CodeDenied, "%s is of pool %q, %s of pool %q", t.self.Name, t.self.PoolID, h.Name, h.PoolID)
	}
	if _, err := common(h.Hello, t.self); err != nil {
		t.counters.versions.Add(1)
		return t.refuse(socket, transport.CodeDenied, "%v", err)
	}
	if h.Part == partBlocks {
		return nil // its link has been judged
	}
	if err := t.handler.Hello(h.Hello); err != nil {
		t.counters.denied.Add(1)
		code := transport.CodeDenied
		if remote, ok := errors.AsType[*transport.RemoteError](err); ok {
			code = remote.Code
		}
		return t.refuse(socket, code, "%v", err)
	}
	return nil
}

// refuse tells a peer why it is turned away, and waits a moment for it to hear it.
func (t *Transport) refuse(socket net.Conn, code transport.Code, format string, args ...any) error {
	h := hello{Hello: t.self, Part: partRefusal, Code: code, Text: fmt.Sprintf(format, args...)}
	if _, err := socket.Write(h.append(nil)); err == nil {
		// Closed with bytes unread, the connection would be reset, and the word lost.
		c := tcpOf(socket)
		_ = c.SetDeadline(time.Now().Add(refusalTime))
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, c, helloBytesMax)
	}
	return errors.New(h.Text)
}

const (
	refusalTime   = time.Second
	helloBytesMax = 64 << 10
)

// welcome begins a session with a peer.
func (t *Transport) welcome(socket net.Conn, h *hello) (bool, error) {
	version, err := common(h.Hello, t.self)
	if err != nil {
		return false, err
	}
	g := newGuest(t, *h, version)
	_, _ = rand.Read(g.token[:]) // never fails
	t.mu.Lock()
	t.guests[g.token] = g
	t.mu.Unlock()
	answer := hello{
		Hello: t.self, Part: partWelcome, SilenceMS: uint32(t.o.Silence.Milliseconds()), Token: g.token,
		Handlers: uint32(t.o.Handlers), InFlightBytes: uint64(t.o.InFlightBytes),
	}
	_ = socket.SetWriteDeadline(time.Now().Add(t.o.HelloTime))
	if _, err = socket.Write(answer.append(nil)); err == nil {
		err = socket.SetWriteDeadline(time.Time{})
	}
	if err != nil || !t.add(g.session) {
		t.mu.Lock()
		delete(t.guests, g.token)
		t.mu.Unlock()
		g.cancel()
		return false, err
	}
	t.counters.served.Add(1)
	ok, err := g.attach(socket, false)
	if err != nil {
		g.end(err)
	}
	return ok, err
}

// join adds a connection for blocks to the session of its token.
func (t *Transport) join(socket net.Conn, h *hello) (bool, error) {
	t.mu.Lock()
	g := t.guests[h.Token]
	t.mu.Unlock()
	if g == nil || g.peer.Node != h.Node {
		return false, t.refuse(socket, transport.CodeDenied, "there is no such link")
	}
	answer := hello{Hello: t.self, Part: partWelcome, SilenceMS: uint32(t.o.Silence.Milliseconds()), Handlers: 1, InFlightBytes: 1}
	if _, err := socket.Write(answer.append(nil)); err != nil {
		return false, err
	}
	return g.attach(socket, true)
}
