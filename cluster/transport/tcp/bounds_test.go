package tcp_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// soon is long enough for two ends in one process on a machine that is busy otherwise.
const soon = 300 * time.Millisecond

// TestSilence: a peer behind a network that has gone silent is gone, for both sides,
// and takes what is under way with it; an idle link is not.
func TestSilence(t *testing.T) {
	began, over := make(chan struct{}), make(chan struct{})
	h := handler{
		call: func(ctx context.Context, _ []byte) ([]byte, error) { return nil, nil },
		fetch: func(ctx context.Context, _ int, _ transport.Reply) ([]byte, error) {
			close(began)
			<-ctx.Done()
			close(over)
			return nil, ctx.Err()
		},
	}
	server := listen(t, tcp.Options{Silence: soon})
	serve(t, server, h)
	client := listen(t, tcp.Options{Silence: 3 * soon})
	p := newProxy(t, server.Address().String())
	l, idle := dial(t, client, p.address()), dial(t, client, server.Address().String())
	lost := make(chan error)
	f := &transport.Fetching{Blocks: blocksOf(2, 100)}
	go func() {
		_, err := l.Fetch(context.Background(), 1, nil, f)
		lost <- err
	}()
	<-began
	close(p.frozen)
	err := <-lost
	if err == nil || !strings.Contains(err.Error(), "nothing was heard") || f.Blocks[0].Status != transport.Lost {
		t.Errorf("%v, status %d", err, f.Blocks[0].Status)
	}
	<-l.Gone()
	<-over
	until(t, "the server counts it", func() bool { return server.Counts().Lost == 1 })
	if _, err := idle.Call(t.Context(), 1, nil); err != nil {
		t.Errorf("the other link: %v", err)
	}
}

// TestStall: a peer that takes nothing off its connections is cut off, also while it
// shows signs of life.
func TestStall(t *testing.T) {
	done := make(chan struct{}, 1000)
	h := handler{fetch: func(_ context.Context, n int, r transport.Reply) ([]byte, error) {
		b := make([]byte, 1<<20)
		for i := range n {
			r.Block(i, [][]byte{b}, 0, func() { done <- struct{}{} })
		}
		return nil, nil
	}}
	server := listen(t, tcp.Options{StallTime: soon})
	serve(t, server, h)
	calls, blocks := tcp.RawLink(t, server.Address().String(), hello(1))
	defer calls.Close()
	defer blocks.Close()
	const n = 64 // more than sockets hold
	_, err := calls.Write(tcp.FetchBytes(1, n, 1<<20))
	must(t, err)
	stop := make(chan struct{})
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		for {
			select {
			case <-stop:
				return
			case <-time.After(soon / 10):
				_, _ = calls.Write(tcp.BeatBytes())
				_, _ = blocks.Write(tcp.BeatBytes())
			}
		}
	}()
	for range n { // all frames come back
		<-done
	}
	close(stop)
	<-beating
	until(t, "it is counted", func() bool { return server.Counts().Lost == 1 })
}

// TestFrozenInTheMiddle: a network that stops in the middle of a block delays no
// deadline: a Fetch lets go of its memory, and so does a Push.
func TestFrozenInTheMiddle(t *testing.T) {
	const blockBytes = 32 << 20 // more than sockets hold
	for _, push := range []bool{false, true} {
		began := make(chan struct{}, 1)
		server := listen(t, tcp.Options{})
		serve(t, server, handler{fetch: func(ctx context.Context, n int, r transport.Reply) ([]byte, error) {
			defer close(began)
			return sendAll(blockBytes)(ctx, n, r)
		}, push: func(ctx context.Context, in transport.Incoming) ([]byte, error) {
			close(began)
			return nil, in.Receive([][]byte{make([]byte, in.BlockBytes(0))})
		}})
		p := newProxy(t, server.Address().String())
		l := dial(t, listen(t, tcp.Options{}), p.address())
		ctx, cancel := context.WithCancel(t.Context())
		released := make(chan struct{})
		f := &transport.Fetching{Blocks: blocksOf(1, blockBytes), Released: func(int) { close(released) }}
		over := make(chan error)
		go func() {
			var err error
			if push {
				_, err = l.Push(ctx, 1, nil, [][][]byte{f.Blocks[0].Dst})
			} else {
				_, err = l.Fetch(ctx, 1, nil, f)
			}
			over <- err
		}()
		<-began
		close(p.frozen)
		cancel()
		if err := <-over; err == nil {
			t.Errorf("push %v: it came through a frozen network", push)
		}
		if !push {
			<-released
		}
		clear(f.Blocks[0].Dst[0]) // ours: the race detector looks on
		must(t, l.Close())
	}
}

// TestBusy: more calls than allowed are turned away at once, where the caller has not
// waited by itself.
func TestBusy(t *testing.T) {
	hold := make(chan struct{})
	began := make(chan struct{}, 10)
	h := handler{call: func(_ context.Context, body []byte) ([]byte, error) {
		if string(body) == "hold" {
			began <- struct{}{}
			<-hold
		}
		return body, nil
	}}
	server := listen(t, tcp.Options{Handlers: 2})
	serve(t, server, h)
	l := dial(t, listen(t, tcp.Options{}), server.Address().String())
	other := dial(t, listen(t, tcp.Options{}), server.Address().String())
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	for range 2 {
		go func() {
			_, err := l.Call(ctx, 1, []byte("hold"))
			gaveUp <- err
		}()
	}
	<-began
	<-began
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := l.Call(short, 1, nil); err != context.DeadlineExceeded {
		t.Errorf("a call beyond the bound does not wait: %v", err)
	}
	cancel()
	<-gaveUp
	<-gaveUp
	_, err := l.Call(t.Context(), 1, nil)
	wantCode(t, err, transport.CodeBusy)
	echoes(t, other)
	close(hold)
	until(t, "it serves again", func() bool {
		_, err := l.Call(t.Context(), 1, nil)
		return err == nil
	})
	if server.Counts().Busy == 0 {
		t.Error("it is not counted")
	}
}

// TestUrgent: calls of urgent kinds wait for no others, at either side, and are not refused
// because of them; they have a bound of their own, and longer ones are as others.
func TestUrgent(t *testing.T) {
	hold := make(chan struct{})
	began := make(chan struct{}, 100)
	h := handler{call: func(_ context.Context, body []byte) ([]byte, error) {
		if string(body) == "hold" {
			began <- struct{}{}
			<-hold
		}
		return body, nil
	}}
	server := listen(t, tcp.Options{Handlers: 1})
	serve(t, server, h)
	l := dial(t, listen(t, tcp.Options{}), server.Address().String())
	over := make(chan error, 100)
	call := func(ctx context.Context, kind transport.Kind) {
		_, err := l.Call(ctx, kind, []byte("hold"))
		over <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go call(ctx, 1)
	<-began
	_, err := l.Call(t.Context(), transport.KindUrgent, []byte("while a call has the slot"))
	must(t, err)
	cancel()
	<-over
	_, err = l.Call(t.Context(), 1, nil)
	wantCode(t, err, transport.CodeBusy)
	_, err = l.Call(t.Context(), 0xff, []byte("while the peer still serves what was given up"))
	must(t, err)
	short, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	_, err = l.Call(short, transport.KindUrgent, make([]byte, 64<<10+1))
	wantCode(t, err, transport.CodeBusy)
	const most = 16
	for range most {
		go call(t.Context(), transport.KindUrgent)
	}
	for range most {
		<-began
	}
	_, err = l.Call(t.Context(), transport.KindUrgent, nil)
	wantCode(t, err, transport.CodeBusy)
	close(hold)
	for range most {
		must(t, <-over)
	}
	_, err = l.Call(t.Context(), transport.KindUrgent, make([]byte, 64<<10))
	must(t, err)
}

// TestInFlight: fetches wait for each other's bytes, with their contexts.
func TestInFlight(t *testing.T) {
	const blockBytes = 1 << 20
	var most, now atomic.Int64
	step := make(chan struct{}, 1000)
	h := handler{fetch: func(ctx context.Context, n int, r transport.Reply) ([]byte, error) {
		most.Store(max(most.Load(), now.Add(int64(n))))
		defer now.Add(-int64(n))
		select {
		case <-step:
		case <-ctx.Done():
		}
		return sendAll(blockBytes)(nil, n, r)
	}}
	server := listen(t, tcp.Options{InFlightBytes: 4*blockBytes + 4096}) // and the requests
	serve(t, server, h)
	l := dial(t, listen(t, tcp.Options{}), server.Address().String())
	over := make(chan error)
	for range 10 {
		go func() {
			_, err := l.Fetch(t.Context(), 1, nil, &transport.Fetching{Blocks: blocksOf(2, blockBytes)})
			over <- err
		}()
	}
	until(t, "as many are served as may be", func() bool { return now.Load() == 4 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	f := &transport.Fetching{Blocks: blocksOf(1, blockBytes)}
	if _, err := l.Fetch(ctx, 1, nil, f); err != context.DeadlineExceeded || f.Blocks[0].Status != transport.Late {
		t.Errorf("%v, status %d", err, f.Blocks[0].Status)
	}
	for range 11 {
		step <- struct{}{}
	}
	for range 10 {
		must(t, <-over)
	}
	if most.Load() > 4 {
		t.Errorf("%d MiB were in flight, 4 are allowed", most.Load())
	}
	_, err := l.Fetch(t.Context(), 1, nil, &transport.Fetching{Blocks: blocksOf(9, blockBytes)}) // more than all: alone
	must(t, err)
}

// TestSmallCallsPass: calls do not wait for the blocks of others: with hundreds of MiB
// that nobody reads on their way, they are answered.
func TestSmallCallsPass(t *testing.T) {
	server := listen(t, tcp.Options{Connections: 1})
	serve(t, server, handler{fetch: sendAll(1 << 20)})
	calls, blocks := tcp.RawLink(t, server.Address().String(), hello(1))
	defer calls.Close()
	defer blocks.Close()
	_, err := calls.Write(tcp.FetchBytes(1, 64, 1<<20))
	must(t, err)
	_, err = calls.Write(tcp.CallBytes(2, "small"))
	must(t, err)
	answer := tcp.ReadAnswer(t, calls, 2)
	if answer != "small" {
		t.Errorf("the answer is %q", answer)
	}
}

func TestIPv6(t *testing.T) {
	if c, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	} else {
		_ = c.Close()
	}
	server := listen(t, tcp.Options{Listen: "[::1]:0"})
	serve(t, server, handler{fetch: sendAll(1000)})
	if !strings.HasPrefix(server.Address().String(), "[::1]:") {
		t.Errorf("the address is %s", server.Address())
	}
	echoes(t, dial(t, listen(t, tcp.Options{}), server.Address().String()))
}

// TestConnections: a link works with any number of connections.
func TestConnections(t *testing.T) {
	server := listen(t, tcp.Options{})
	serve(t, server, handler{fetch: sendAll(1<<20 + 5)})
	for n := 1; n <= tcp.LinkConnectionsMax; n++ {
		client := listen(t, tcp.Options{Connections: n})
		l := dial(t, client, server.Address().String())
		for range 2 {
			f := &transport.Fetching{Blocks: blocksOf(8, 1<<20+5)}
			_, err := l.Fetch(t.Context(), 1, nil, f)
			must(t, err)
			for i, b := range f.Blocks {
				if b.Status != transport.Done || string(b.Dst[0]) != string(fill(i, 1<<20+5)) {
					t.Errorf("block %d over %d connections: status %d", i, n, b.Status)
				}
			}
		}
		if got := client.Counts().Connections; got != int64(n)+1 {
			t.Errorf("%d connections, want %d", got, n+1)
		}
		must(t, l.Close())
	}
}
