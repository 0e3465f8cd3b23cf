package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/engine/offheap"
	"github.com/spillway-kv/spillway/engine/planted"
)

// Sizes and times of TestFrozen. A block takes about a second here, the deadline is shorter,
// and the host stops the server meanwhile.
const (
	frozenBytes    = 48 << 20
	frozenDeadline = 700 * time.Millisecond
	frozenRounds   = 3
	// thawTime is how long after LATE the server may still be stopped.
	thawTime = 4 * time.Second
)

// TestFrozen is one of two machines, without daemons: of a server, role 1, that the host
// stops while it writes a block, and of a caller, role 2, that gives the block up meanwhile.
// What the server writes when it goes on must not change memory that was released. It says
// ASKED when the host is to stop the server soon, and LATE when it may let it go on soon.
func TestFrozen(t *testing.T) {
	switch os.Getenv("SPILLWAY_VM_ROLE") {
	case "1":
		serveFrozen(t)
	case "2":
		// First the server's word is waited for, then queue pairs are destroyed before it comes.
		fences := []time.Duration{time.Minute, 200 * time.Millisecond}
		if planted.Active(planted.SkipFence) {
			fences = fences[:1]
		}
		for _, fence := range fences {
			t.Run(fmt.Sprint("fence-", fence), func(t *testing.T) { askFrozen(t, fence) })
		}
	default:
		t.Skip("skipped: not one of two machines")
	}
}

func frozenHello(role int) transport.Hello {
	return transport.Hello{PoolID: "frozen", Node: member.ID{byte(role)}, Name: fmt.Sprint("n", role), ProtocolLow: 1, ProtocolHigh: 1}
}

func openFrozen(t *testing.T, role int, fence time.Duration) *rdma.Transport {
	t.Helper()
	control, err := tcp.Listen(tcp.Options{Listen: fmt.Sprintf("10.9.0.%d:7500", role)})
	if err != nil {
		t.Fatal(err)
	}
	n, err := rdma.New(rdma.Options{Control: control, Fabric: verbs.New(), LandingBytes: 1 << 20, FenceTime: fence})
	if err != nil {
		t.Fatal(errors.Join(err, control.Close()))
	}
	return n
}

// frozenServer has one block.
type frozenServer struct {
	transport.Handler // nothing else is asked for
	block             []byte
}

// Hello takes everybody in.
func (s *frozenServer) Hello(transport.Hello) error { return nil }

// Fetch sends the block.
func (s *frozenServer) Fetch(_ context.Context, _ transport.Hello, _ transport.Kind, _ []byte, _ int, r transport.Reply) ([]byte, error) {
	sent := make(chan struct{})
	r.Block(0, [][]byte{s.block}, 1, func() { close(sent) })
	<-sent
	return nil, nil
}

func serveFrozen(t *testing.T) {
	memory, err := offheap.Make[byte](frozenBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Free()
	fill(memory.Slice(), 1)
	n := openFrozen(t, 1, 0)
	if _, err := n.RegisterMemory(memory.Slice(), transport.Source); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(frozenHello(1), &frozenServer{block: memory.Slice()}) }()
	fmt.Println("SERVING")
	for !ordered("end") {
		time.Sleep(20 * time.Millisecond)
	}
	if err := errors.Join(n.Close(), <-served); err != nil {
		t.Error(err)
	}
}

func askFrozen(t *testing.T, fence time.Duration) {
	memory, err := offheap.Make[byte](frozenBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Free()
	n := openFrozen(t, 2, fence)
	defer n.Close()
	if _, err := n.RegisterMemory(memory.Slice(), transport.Destination); err != nil {
		t.Fatal(err)
	}
	link, err := n.Dial(t.Context(), "10.9.0.1:7500", frozenHello(2))
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	late := 0
	for range frozenRounds {
		eventually(t, "RDMA is up", func() error {
			if w := n.Way(frozenHello(1).Node); w.Name != "rdma" {
				return errors.New(w.Why)
			}
			return nil
		})
		if giveUpFrozen(t, link, memory.Slice()) {
			late++
		}
	}
	if t.Logf("%+v", n.Way(frozenHello(1).Node)); late == 0 {
		t.Error("no block was late")
	}
}

// giveUpFrozen asks for the block, once, and watches the memory when it is released. It
// reports whether the block was late.
func giveUpFrozen(t *testing.T, link transport.Link, memory []byte) bool {
	t.Helper()
	fill(memory, 3)
	released := make(chan struct{})
	f := transport.Fetching{Blocks: []transport.Block{{Dst: [][]byte{memory}}}, Released: func(int) { close(released) }}
	ctx, cancel := context.WithTimeout(t.Context(), frozenDeadline)
	defer cancel()
	fmt.Println("ASKED")
	_, err := link.Fetch(ctx, 1, nil, &f)
	fmt.Println("LATE")
	if f.Blocks[0].Status != transport.Late {
		t.Logf("not late: status %d, %v", f.Blocks[0].Status, err)
		time.Sleep(thawTime)
		return false
	}
	part := differs(memory, 3) >= 0
	select {
	case <-released:
	case <-time.After(patience):
		t.Fatal("memory is not released")
	}
	fill(memory, 5)
	time.Sleep(thawTime)
	if at := differs(memory, 5); at >= 0 {
		t.Errorf("memory was changed after it was released, from byte %d on", at)
	}
	t.Logf("late; some of the block had come by then: %v", part)
	return part
}
