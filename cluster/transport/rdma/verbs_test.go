//go:build verbs && linux && cgo

package rdma_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

// realPorts are two ports of this machine that reach each other; without them a test is
// skipped.
func realPorts(t *testing.T) []string {
	t.Helper()
	const variable = "SPILLWAY_RDMA_PORTS"
	names := strings.Split(os.Getenv(variable), ",")
	if len(names) != 2 {
		t.Skipf("needs two RDMA ports that reach each other: set %s=rxe1:1,rxe2:1", variable)
	}
	return names
}

// TestVerbsSuite runs the suite of every transport over TCP and real devices.
func TestVerbsSuite(t *testing.T) {
	ports := realPorts(t)
	var number atomic.Int32
	var blocks atomic.Uint64 // that came by RDMA
	transporttest.Run(t, transporttest.Rig{
		New: func(t *testing.T) transport.Transport {
			control, err := tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			name := ports[number.Add(1)%2]
			n, err := rdma.New(rdma.Options{Control: control, Fabric: verbs.New(), Ports: []string{name}})
			if err != nil {
				_ = control.Close()
				t.Fatal(err)
			}
			return &waiting{Transport: n, blocks: &blocks, peers: map[member.ID]bool{}}
		},
		Around: func(t *testing.T, test func(t *testing.T)) {
			number.Store(0)
			test(t)
		},
	})
	if t.Logf("%d blocks came by RDMA", blocks.Load()); blocks.Load() < 1000 {
		t.Errorf("%d blocks came by RDMA, want thousands", blocks.Load())
	}
}

// waiting is a transport whose links are given out when RDMA is up.
type waiting struct {
	*rdma.Transport
	blocks *atomic.Uint64

	mu    sync.Mutex
	peers map[member.ID]bool
}

func (w *waiting) Dial(ctx context.Context, address string, self transport.Hello) (transport.Link, error) {
	l, err := w.Transport.Dial(ctx, address, self)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); w.Way(l.Peer().Node).Name != "rdma"; time.Sleep(time.Millisecond) {
		if time.Since(began) > realPatience {
			_ = l.Close()
			return nil, fmt.Errorf("RDMA does not come up: %+v", w.Way(l.Peer().Node))
		}
	}
	w.mu.Lock()
	w.peers[l.Peer().Node] = true
	w.mu.Unlock()
	return l, nil
}

func (w *waiting) Close() error {
	err := w.Transport.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.peers {
		w.blocks.Add(w.Way(id).Blocks)
	}
	clear(w.peers)
	return err
}

// realOverVerbs is a history over real devices.
func realOverVerbs(t *testing.T, seed uint64, d time.Duration) ([]string, realFigures) {
	ports := realPorts(t)
	h := realHistory{seed: seed, for_: d, fence: 200 * time.Millisecond, node: func(_ *testing.T, i int) rdma.Options {
		return rdma.Options{Fabric: verbs.New(), Ports: ports[i : i+1]}
	}}
	return h.run(t)
}

// TestVerbsHistory is a random history over TCP and real devices.
func TestVerbsHistory(t *testing.T) {
	d := 8 * time.Second
	if testing.Short() {
		d = 3 * time.Second
	}
	faults, figures := realOverVerbs(t, uint64(time.Now().UnixNano()), d)
	for _, f := range faults {
		t.Error(f)
	}
	if figures.done == 0 || figures.late == 0 || figures.ways.Blocks == 0 {
		t.Errorf("too little has happened: %+v", figures)
	}
}
