package rdma_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// benchHandler has one block of each size, in memory that is registered.
type benchHandler struct{ data []byte }

func (h *benchHandler) Hello(transport.Hello) error { return nil }
func (h *benchHandler) Call(context.Context, transport.Hello, transport.Kind, []byte) ([]byte, error) {
	return nil, nil
}
func (h *benchHandler) Fetch(_ context.Context, _ transport.Hello, _ transport.Kind, _ []byte, n int, r transport.Reply) ([]byte, error) {
	for i := range n {
		r.Block(i, [][]byte{h.data}, 0, func() {})
	}
	return nil, nil
}
func (h *benchHandler) Push(context.Context, transport.Hello, transport.Kind, []byte, transport.Incoming) ([]byte, error) {
	return nil, nil
}

// BenchmarkFetch fetches blocks, 16 calls at once, between two nodes that talk over TCP and
// whose devices are simulated without delay: what is measured is what this package and its
// control cost both ends, beside the copy that a device would make. cpu-ns/block is processor
// time, which stands still on a busy machine.
func BenchmarkFetch(b *testing.B) {
	for _, blockBytes := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, batch := range []int{1, 8} {
			b.Run(fmt.Sprintf("%dKiB/blocks=%d", blockBytes>>10, batch), func(b *testing.B) { benchFetch(b, blockBytes, batch) })
		}
	}
}

const benchDepth = 16

func benchFetch(b *testing.B, blockBytes, batch int) {
	fabric := fabricsim.New(fabricsim.Config{Seed: 1})
	defer fabric.Close()
	server, client := benchNode(b, fabric, 1), benchNode(b, fabric, 2)
	served := make(chan error, 1)
	data := mapped(b, blockBytes)
	unregister := registered(b, server, data, transport.Source)
	go func() { served <- server.Serve(benchHello(1), &benchHandler{data}) }()
	defer func() {
		for _, t := range []*rdma.Transport{client, server} {
			if err := t.Close(); err != nil {
				b.Error(err)
			}
		}
		if err := <-served; err != nil {
			b.Error(err)
		}
		unregister()
	}()
	l, err := client.Dial(b.Context(), server.Address().String(), benchHello(2))
	if err != nil {
		b.Fatal(err)
	}
	for began := time.Now(); client.Way(l.Peer().Node).Name != "rdma"; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			b.Fatalf("%+v", client.Way(l.Peer().Node))
		}
	}
	into := mapped(b, benchDepth*batch*blockBytes)
	defer registered(b, client, into, transport.Destination)()
	benchCalls(b, l, into, blockBytes, batch)
	if w := client.Way(l.Peer().Node); w.Blocks < uint64(b.N) || w.Fallbacks > 0 {
		b.Errorf("they did not come by RDMA: %+v", w)
	}
}

// benchCalls makes calls for b.N blocks.
func benchCalls(b *testing.B, l transport.Link, into []byte, blockBytes, batch int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.SetBytes(int64(blockBytes))
	b.ResetTimer()
	before := benchCPU(b)
	for worker := range benchDepth {
		all.Go(func() {
			body := make([]byte, 64)
			for left.Add(int64(-batch)) > int64(-batch) {
				f := &transport.Fetching{Blocks: make([]transport.Block, batch)}
				for i := range f.Blocks {
					at := (worker*batch + i) * blockBytes
					f.Blocks[i].Dst = [][]byte{into[at : at+blockBytes]}
				}
				if _, err := l.Fetch(b.Context(), 1, body, f); err != nil || f.Blocks[0].Status != transport.Done {
					b.Error(err, f.Blocks[0].Status)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(benchCPU(b)-before)/float64(b.N), "cpu-ns/block")
	b.StopTimer()
}

func benchNode(b *testing.B, fabric *fabricsim.Network, number int) *rdma.Transport {
	b.Helper()
	control, err := tcp.Listen(tcp.Options{Listen: "127.0.0.1:0", Connections: 2})
	if err != nil {
		b.Fatal(err)
	}
	m, err := fabric.Machine(fmt.Sprint(rand.Text(), number), fabricsim.MachineConfig{Ports: fabricsim.RoCE(uint8(number), 1)})
	if err != nil {
		b.Fatal(err)
	}
	t, err := rdma.New(rdma.Options{Control: control, Fabric: m})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func benchHello(number byte) transport.Hello {
	return transport.Hello{PoolID: "bench", Node: member.ID{number}, Name: fmt.Sprint("node", number), ProtocolLow: 1, ProtocolHigh: 1}
}

func mapped(b *testing.B, nBytes int) []byte {
	b.Helper()
	mem, err := unix.Mmap(-1, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func registered(b *testing.B, t *rdma.Transport, mem []byte, use transport.Use) (release func()) {
	b.Helper()
	release, err := t.RegisterMemory(mem, use)
	if err != nil {
		b.Fatal(err)
	}
	return release
}

func benchCPU(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
