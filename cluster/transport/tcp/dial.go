package tcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Dial implements transport.Transport. It ends with ctx, and after Options.HelloTime.
func (t *Transport) Dial(ctx context.Context, address string, self transport.Hello) (transport.Link, error) {
	l, err := t.dial(ctx, address, self)
	if err != nil {
		t.counters.dialsFailed.Add(1)
		return nil, fmt.Errorf("%s to the peer at %s: %w", self.Name, address, err)
	}
	t.counters.dialled.Add(1)
	return l, nil
}

func (t *Transport) dial(ctx context.Context, address string, self transport.Hello) (*Link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.o.HelloTime, fmt.Errorf("no answer within %v", t.o.HelloTime))
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	ask := hello{Hello: self, Part: partCalls, SilenceMS: uint32(t.o.Silence.Milliseconds())}
	socket, peer, err := t.open(ctx, address, &ask)
	if err != nil {
		return nil, err
	}
	version, err := common(self, peer.Hello)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	l := newLink(t, peer, version)
	if !t.add(l.session) {
		_ = socket.Close()
		return nil, errClosed
	}
	if _, err := l.attach(socket, false); err != nil {
		_ = socket.Close()
		l.end(err)
		return nil, err
	}
	ask.Part, ask.Token = partBlocks, peer.Token
	if err := l.widen(ctx, address, &ask); err != nil {
		l.end(errClosed)
		<-l.done
		return nil, err
	}
	return l, nil
}

// widen makes the connections for blocks.
func (l *Link) widen(ctx context.Context, address string, ask *hello) error {
	var making sync.WaitGroup
	failed := make([]error, l.t.o.Connections)
	for i := range failed {
		making.Go(func() {
			socket, _, err := l.t.open(ctx, address, ask)
			if err != nil {
				failed[i] = err
				return
			}
			if ok, err := l.attach(socket, true); !ok {
				_ = socket.Close()
				failed[i] = errors.Join(err, errEnded)
			}
		})
	}
	making.Wait()
	return errors.Join(failed...)
}

// open makes one connection and hears what the peer says to ask.
func (t *Transport) open(ctx context.Context, address string, ask *hello) (_ net.Conn, peer hello, err error) {
	dialer := net.Dialer{KeepAlive: -1} // the watch does it better
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, peer, causeOf(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	socket, peer, err := t.greet(ctx, c, ask)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, peer, causeOf(ctx, err)
	}
	return socket, peer, nil
}

// causeOf is why ctx has ended, if it has, in place of what that came to.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), context.Cause(ctx), err)
	}
	return err
}

func (t *Transport) greet(ctx context.Context, c net.Conn, ask *hello) (socket net.Conn, peer hello, err error) {
	socket = c
	var id *identity
	if t.credentials != nil {
		id = t.credentials.now()
		if socket, err = t.secure(ctx, c, id); err != nil {
			return nil, peer, err
		}
	}
	if _, err := socket.Write(ask.append(nil)); err != nil {
		return nil, peer, err
	}
	head := make([]byte, helloHeadBytes)
	if _, err := io.ReadFull(socket, head); err != nil {
		return nil, peer, unexpected(err)
	}
	if peer, err = readHello(socket, head); err != nil {
		return nil, peer, err
	}
	if id != nil && t.credentials.files.CheckNames {
		if err := id.check(socket.(*tls.Conn).ConnectionState(), x509.ExtKeyUsageServerAuth, peer.Name); err != nil {
			return nil, peer, fmt.Errorf("%s refuses what %s shows: %w", ask.Name, peer.Name, err)
		}
	}
	return socket, peer, verdict(ask, &peer)
}

// verdict is what an answer to a hello comes to.
func verdict(ask, peer *hello) (err error) {
	if peer.Part == partRefusal {
		err = &transport.RemoteError{Code: peer.Code, Text: peer.Text}
	}
	switch _, versionErr := common(ask.Hello, peer.Hello); {
	case peer.PoolID != ask.PoolID:
		return errors.Join(fmt.Errorf("%w: %s is of pool %q, %s of pool %q", transport.ErrForeign, peer.Name, peer.PoolID, ask.Name, ask.PoolID), err)
	case versionErr != nil:
		return errors.Join(versionErr, err)
	case err == nil && peer.Part != partWelcome:
		return malformed("its answer is no welcome")
	}
	return err
}

// secure begins TLS at the side that asks.
func (t *Transport) secure(ctx context.Context, c net.Conn, id *identity) (net.Conn, error) {
	config := id.config()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return id.check(state, x509.ExtKeyUsageServerAuth, "")
	}
	socket := tls.Client(c, config)
	err := socket.HandshakeContext(ctx)
	if notTLS, ok := errors.AsType[tls.RecordHeaderError](err); ok && strings.HasPrefix(magic, string(notTLS.RecordHeader[:])) {
		return nil, fmt.Errorf("TLS is on here, and the peer speaks plain text: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return socket, nil
}
