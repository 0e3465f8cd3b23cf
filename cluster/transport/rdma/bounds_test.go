package rdma_test

import (
	"context"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// stubborn is a peer whose fetches do not end before they may.
type stubborn struct {
	transport.Handler
	began chan struct{}
	end   chan struct{}
}

func (stubborn) Hello(transport.Hello) error { return nil }

func (s stubborn) Fetch(context.Context, transport.Hello, transport.Kind, []byte, int, transport.Reply) ([]byte, error) {
	s.began <- struct{}{}
	<-s.end
	return nil, nil
}

// TestFenceAtBound: a fence does not wait for the fetches of its link, however many there are:
// the peer has all handlers at work, and more calls wait for them.
func TestFenceAtBound(t *testing.T) {
	const handlers, waiting = 2, 3
	fabric := fabricsim.New(fabricsim.Config{Seed: 1})
	defer fabric.Close()
	node := func(i int, address string) *rdma.Transport {
		control, err := tcp.Listen(tcp.Options{Listen: address, Handlers: handlers})
		must(t, err)
		machine, err := fabric.Machine(string(rune('a'+i)), fabricsim.MachineConfig{Ports: fabricsim.RoCE(uint8(i), 1)})
		must(t, err)
		n, err := rdma.New(rdma.Options{Control: control, Fabric: machine, FenceTime: 20 * time.Second, LandingBytes: 1 << 20})
		must(t, err)
		return n
	}
	hello := func(i byte) transport.Hello {
		return transport.Hello{PoolID: "pool", Node: member.ID{i}, Name: "n", ProtocolLow: 1, ProtocolHigh: 1}
	}
	server, client := node(1, "127.0.0.1:0"), node(2, "127.0.0.1:0")
	h := stubborn{began: make(chan struct{}, 10), end: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(hello(1), h) }()
	l, err := client.Dial(t.Context(), server.Address().String(), hello(2))
	must(t, err)
	peer := l.Peer().Node
	for client.Way(peer).Name != "rdma" {
		time.Sleep(time.Millisecond)
	}
	a, err := offheap.Make[byte](1 << 20)
	must(t, err)
	defer a.Free()
	_, err = client.RegisterMemory(a.Slice(), transport.Destination)
	must(t, err)

	released, over := make(chan struct{}, 10), make(chan error, 10)
	fetch := func(ctx context.Context, i int) {
		_, err := l.Fetch(ctx, 1, nil, &transport.Fetching{
			Blocks: []transport.Block{{Dst: [][]byte{a.Slice()[i<<12:][:1<<12]}}}, Released: func(int) { released <- struct{}{} }})
		over <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	for i := range handlers {
		go fetch(ctx, i)
		<-h.began
	}
	for i := range waiting {
		go fetch(t.Context(), handlers+i)
	}
	cancel()
	for range handlers {
		<-released
	}
	// Those that waited may be refused as well, as soon as the peer can be asked, and fenced.
	if w := client.Way(peer); w.Fences < handlers || w.Fences > handlers+waiting || w.Destroyed != 0 {
		t.Errorf("%d fetches were fenced by the peer's word, %d queue pairs destroyed", w.Fences, w.Destroyed)
	}
	close(h.end)
	for range handlers + waiting {
		<-over
	}
	must(t, l.Close())
	must(t, client.Close())
	must(t, server.Close())
	must(t, <-served)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
