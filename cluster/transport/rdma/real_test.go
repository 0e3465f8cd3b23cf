package rdma_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// TestRealTime is a random history over sockets and a simulated fabric, in real time: what
// the device tests do with real devices.
func TestRealTime(t *testing.T) {
	faults, figures := realOverSim(t, 3)
	for _, f := range faults {
		t.Error(f)
	}
	if figures.done == 0 || figures.late == 0 || figures.ways.Blocks == 0 {
		t.Errorf("too little has happened: %+v", figures)
	}
}

// realOverSim runs a history with a seed.
func realOverSim(t *testing.T, seed uint64) (faults []string, figures realFigures) {
	network := fabricsim.New(fabricsim.Config{Seed: seed, DelayMax: 100 * time.Microsecond, BytesPerSecond: 1 << 30})
	defer network.Close()
	h := realHistory{seed: seed, for_: time.Second, fence: 20 * time.Millisecond, node: func(t *testing.T, i int) rdma.Options {
		m, err := network.Machine(fmt.Sprint("m", i), fabricsim.MachineConfig{Ports: fabricsim.RoCE(uint8(i+1), 2)})
		if err != nil {
			t.Fatal(err)
		}
		return rdma.Options{Fabric: m}
	}}
	return h.run(t)
}

// realHistory is a random one in real time: workers of node 0 fetch blocks of node 1, give
// fetches up, and links are closed under them.
//
// Every byte that arrives is compared, and memory is filled with a pattern as soon as it is
// the worker's again: nobody may change it from then on.
type realHistory struct {
	seed  uint64
	for_  time.Duration
	fence time.Duration
	node  func(t *testing.T, i int) rdma.Options // Control, times and sizes are the history's
}

const (
	realWorkers    = 4
	realPlaces     = 8 // of a worker, every fourth of them not registered
	realPlaceBytes = 1 << 20
	realSpoilt     = 0xdd
	realPatience   = 30 * time.Second
)

type realFigures struct {
	done, late, lost, refused, closed int
	ways                              transport.Way
}

// realRun is a history under way.
type realRun struct {
	realHistory
	caller, server *rdma.Transport
	sources        chan []byte // registered memory of the server
	link           atomic.Pointer[transport.Link]

	mu      sync.Mutex
	faults  []string
	figures realFigures
}

func (r *realRun) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) < 20 {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

func realHello(i int) transport.Hello {
	return transport.Hello{PoolID: "real", Node: member.ID{byte(i + 1)}, Name: fmt.Sprint("real-", i), ProtocolLow: 1, ProtocolHigh: 1}
}

func (h realHistory) open(t *testing.T, i int) *rdma.Transport {
	t.Helper()
	o := h.node(t, i)
	control, err := tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	o.Control, o.LandingBytes = control, 8<<20
	o.FenceTime, o.PauseMin, o.PauseMax = h.fence, 5*time.Millisecond, 100*time.Millisecond
	n, err := rdma.New(o)
	if err != nil {
		_ = control.Close()
		t.Fatal(err)
	}
	return n
}

// run carries a history out.
func (h realHistory) run(t *testing.T) ([]string, realFigures) {
	t.Logf("seed %d", h.seed)
	r := &realRun{realHistory: h, caller: h.open(t, 0), server: h.open(t, 1), sources: make(chan []byte, 64)}
	memory, err := offheap.Make[byte]((cap(r.sources) + realWorkers*realPlaces) * realPlaceBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Free()
	mem := memory.Slice()
	for range cap(r.sources) {
		r.sources <- mem[:realPlaceBytes:realPlaceBytes]
		mem = mem[realPlaceBytes:]
	}
	if _, err := r.server.RegisterMemory(memory.Slice()[:cap(r.sources)*realPlaceBytes], transport.Source); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(realHello(1), r) }()
	r.dial(t.Context())
	var workers, troubles sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	troubles.Go(func() { r.untilEnough(stop) })
	var all []*realWorker
	for i := range realWorkers {
		w := &realWorker{r: r, rng: rand.New(rand.NewPCG(h.seed, uint64(i))), number: uint64(i + 1)}
		for k := range realPlaces {
			p := &realPlace{all: mem[:realPlaceBytes:realPlaceBytes]}
			mem = mem[realPlaceBytes:]
			p.spoil()
			if k%4 < 3 {
				if _, err := r.caller.RegisterMemory(p.all, transport.Destination); err != nil {
					t.Fatal(err)
				}
			}
			w.places = append(w.places, p)
		}
		all = append(all, w)
		workers.Go(func() { w.work(ctx) })
	}
	troubles.Go(func() { r.trouble(ctx) })
	workers.Wait()
	troubles.Wait()
	_ = (*r.link.Load()).Close()
	for _, w := range all {
		w.finish()
	}
	r.figures.ways = r.caller.Way(realHello(1).Node)
	if err := errors.Join(r.caller.Close(), r.server.Close(), <-served); err != nil {
		r.fault("close: %v", err)
	}
	for _, w := range all {
		w.finish() // nothing was written after that either
	}
	t.Logf("%+v", r.figures)
	return r.faults, r.figures
}

// untilEnough stops the history when its time is over and enough has happened, or far too
// much time is.
func (r *realRun) untilEnough(stop func()) {
	defer stop()
	for began := time.Now(); time.Since(began) < realPatience; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		f, faults := r.figures, len(r.faults)
		r.mu.Unlock()
		if faults > 0 || time.Since(began) > r.for_ && f.done > 50 && f.late > 10 && f.closed > 1 {
			return
		}
	}
}

// dial makes a link, and waits for RDMA a moment.
func (r *realRun) dial(ctx context.Context) {
	l, err := r.caller.Dial(ctx, r.server.Address().String(), realHello(0))
	if err != nil {
		r.fault("dial: %v", err)
		return
	}
	for began := time.Now(); r.caller.Way(realHello(1).Node).Name != "rdma" && time.Since(began) < 5*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if old := r.link.Swap(&l); old != nil {
		_ = (*old).Close()
	}
}

// trouble closes links under load.
func (r *realRun) trouble(ctx context.Context) {
	rng := rand.New(rand.NewPCG(r.seed, 99))
	for {
		select {
		case <-time.After(time.Duration(100+rng.IntN(400)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
		if rng.IntN(2) == 0 {
			_ = (*r.link.Load()).Close()
		}
		r.dial(context.WithoutCancel(ctx))
		r.mu.Lock()
		r.figures.closed++
		r.mu.Unlock()
	}
}

// Hello implements transport.Handler.
func (r *realRun) Hello(transport.Hello) error { return nil }

// Call implements transport.Handler.
func (r *realRun) Call(context.Context, transport.Hello, transport.Kind, []byte) ([]byte, error) {
	return nil, &transport.RemoteError{Code: transport.CodeUnknown}
}

// Push implements transport.Handler.
func (r *realRun) Push(context.Context, transport.Hello, transport.Kind, []byte, transport.Incoming) ([]byte, error) {
	return nil, &transport.RemoteError{Code: transport.CodeUnknown}
}

// Fetch sends the blocks that the body names: 12 bytes each, an ID and a size.
func (r *realRun) Fetch(ctx context.Context, _ transport.Hello, _ transport.Kind, body []byte, n int, reply transport.Reply) ([]byte, error) {
	for i := range n {
		id, nBytes := binary.LittleEndian.Uint64(body[12*i:]), int(binary.LittleEndian.Uint32(body[12*i+8:]))
		if id%17 == 0 { // this one is slow to come
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Duration(id%50) * time.Millisecond):
			}
		}
		var source []byte
		done := func() {}
		select {
		case whole := <-r.sources:
			source, done = whole[:nBytes], func() { realSpoil(whole); r.sources <- whole }
		default:
			source = make([]byte, nBytes)
		}
		realFill(source, id)
		reply.Block(i, [][]byte{source[:nBytes/3], source[nBytes/3:]}, ^id, done)
	}
	return []byte("all"), nil
}
