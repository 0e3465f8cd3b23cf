package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

func hello(i int) transport.Hello {
	return transport.Hello{PoolID: "pool", Node: member.ID{byte(i)}, Name: fmt.Sprintf("n%d", i), ProtocolLow: 1, ProtocolHigh: 1}
}

// serve has a transport serve as node 0 until the test ends.
func serve(t *testing.T, n *tcp.Transport, h transport.Handler) {
	served := make(chan error, 1)
	go func() { served <- n.Serve(hello(0), h) }()
	t.Cleanup(func() {
		must(t, n.Close())
		must(t, <-served)
	})
}

// handler is one of functions; those that are nil are not called.
type handler struct {
	hello func(transport.Hello) error
	call  func(ctx context.Context, body []byte) ([]byte, error)
	fetch func(ctx context.Context, n int, r transport.Reply) ([]byte, error)
	push  func(ctx context.Context, in transport.Incoming) ([]byte, error)
}

func (h handler) Hello(from transport.Hello) error {
	if h.hello == nil {
		return nil
	}
	return h.hello(from)
}

func (h handler) Call(ctx context.Context, _ transport.Hello, _ transport.Kind, body []byte) ([]byte, error) {
	if h.call == nil {
		return body, nil
	}
	return h.call(ctx, body)
}

func (h handler) Fetch(ctx context.Context, _ transport.Hello, _ transport.Kind, _ []byte, n int, r transport.Reply) ([]byte, error) {
	return h.fetch(ctx, n, r)
}

func (h handler) Push(ctx context.Context, _ transport.Hello, _ transport.Kind, _ []byte, in transport.Incoming) ([]byte, error) {
	return h.push(ctx, in)
}

// fill is the content of block i.
func fill(i, n int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, n) }

// sendAll answers every block with fill.
func sendAll(nBytes int) func(ctx context.Context, n int, r transport.Reply) ([]byte, error) {
	return func(_ context.Context, n int, r transport.Reply) ([]byte, error) {
		for i := range n {
			r.Block(i, [][]byte{fill(i, nBytes)}, uint64(i), func() {})
		}
		return nil, nil
	}
}

func dial(t *testing.T, from *tcp.Transport, address string) transport.Link {
	t.Helper()
	l, err := from.Dial(t.Context(), address, hello(1))
	must(t, err)
	return l
}

func blocksOf(n, nBytes int) []transport.Block {
	blocks := make([]transport.Block, n)
	for i := range blocks {
		blocks[i].Dst = [][]byte{make([]byte, nBytes)}
	}
	return blocks
}

// echoes proves that a link works.
func echoes(t *testing.T, l transport.Link) {
	t.Helper()
	answer, err := l.Call(t.Context(), 1, []byte("alive"))
	if err != nil || string(answer) != "alive" {
		t.Errorf("a call afterwards: %q, %v", answer, err)
	}
}

func wantCode(t *testing.T, err error, code transport.Code) {
	t.Helper()
	if remote, ok := errors.AsType[*transport.RemoteError](err); !ok || remote.Code != code {
		t.Errorf("error %v, want one of the peer's with code %d", err, code)
	}
}

// proxy passes connections on, until it is frozen: then it keeps them open, takes
// nothing and says nothing.
type proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup
	frozen   chan struct{}
	over     chan struct{}

	mu   sync.Mutex
	open []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: listener, to: to, frozen: make(chan struct{}), over: make(chan struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		close(p.over)
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, in, out)
		p.mu.Unlock()
		p.running.Go(func() { p.pass(in, out) })
		p.running.Go(func() { p.pass(out, in) })
	}
}

func (p *proxy) pass(from, to net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-p.frozen:
			<-p.over
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
}

// said collects what is logged.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// until polls, since what it waits for happens at the other side.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 20000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s: not within 20 s", what)
}

// discard reads a connection to its end.
func discard(c net.Conn) []byte {
	b, _ := io.ReadAll(c)
	return b
}
