package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Transport reaches other nodes over TCP, and is reached. All methods may be called
// from many goroutines.
type Transport struct {
	o           Options
	listener    net.Listener
	credentials *credentials // nil: plain text
	counters    counters
	ctx         context.Context // ends with Close
	cancel      context.CancelFunc
	running     sync.WaitGroup // handshakes of peers, watches; Add under mu while not closed
	accepted    atomic.Int64   // connections that peers have made and that are open

	mu       sync.Mutex
	self     transport.Hello
	handler  transport.Handler
	sessions map[*session]bool
	guests   map[[tokenBytes]byte]*guest
	closed   bool
}

// Listen makes a transport that listens; peers are answered once Serve is called.
func Listen(o Options) (*Transport, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &Transport{o: o, sessions: map[*session]bool{}, guests: map[[tokenBytes]byte]*guest{}}
	if o.TLS != nil {
		var err error
		if t.credentials, err = newCredentials(*o.TLS, o.Logger); err != nil {
			return nil, err
		}
	}
	listening := net.ListenConfig{KeepAlive: -1} // the watch does it better
	listener, err := listening.Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for peers: %w", err)
	}
	t.listener = listener
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// Name is "tcp".
func (t *Transport) Name() string { return "tcp" }

// Address is the listener's.
func (t *Transport) Address() net.Addr { return t.listener.Addr() }

// Secured says whether the other sides prove who they are and nobody can read along.
func (t *Transport) Secured() bool { return t.credentials != nil }

// Serve implements transport.Transport.
func (t *Transport) Serve(self transport.Hello, h transport.Handler) error {
	t.mu.Lock()
	t.self, t.handler = self, h
	t.mu.Unlock()
	for {
		c, err := t.listener.Accept()
		switch {
		case err == nil:
			t.take(c.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed): // which only Close does
			return nil
		default: // out of descriptors, or a peer that left at once
			t.o.Logger.Warn("a peer's connection could not be accepted", "err", err)
			select {
			case <-t.ctx.Done():
				return nil
			case <-time.After(acceptPause):
			}
		}
	}
}

const acceptPause = 100 * time.Millisecond

// take hears who connects, in a goroutine of its own.
func (t *Transport) take(c *net.TCPConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Close()
		return
	}
	if t.accepted.Load() >= int64(t.o.ConnectionsMax) {
		t.counters.full.Add(1)
		_ = c.Close()
		return
	}
	t.accepted.Add(1)
	t.running.Go(func() { t.hear(c) })
}

// add takes a session into the books and starts its watch; false once the transport is
// closed.
func (t *Transport) add(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.sessions[s] = true
	t.running.Go(s.watch)
	return true
}

// remove forgets a session of which nothing is left.
func (t *Transport) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, s)
	delete(t.guests, s.token)
}

// Close implements transport.Transport.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	all := make([]*session, 0, len(t.sessions))
	for s := range t.sessions {
		all = append(all, s)
	}
	t.mu.Unlock()
	err := t.listener.Close()
	for _, s := range all {
		s.end(errClosed) // before handlers hear that it is over, and answer so
	}
	t.cancel()
	t.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // the second time
	}
	return err
}

// errClosed is the cause of what this side has ended.
var errClosed = errors.New("it was closed here")
