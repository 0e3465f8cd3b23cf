package rdma_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

// TestSuite runs the suite of every transport in virtual time, over a network and devices
// with delays.
func TestSuite(t *testing.T) {
	for name, c := range map[string]struct {
		o          rdma.Options
		ports      int
		registered bool
	}{
		"landing":      {rdma.Options{}, 1, false},
		"registered":   {rdma.Options{}, 1, true},
		"three ports":  {rdma.Options{}, 3, true},
		"two and tiny": {rdma.Options{LandingBytes: 256 << 10, PieceBytes: 4096, PostedBytes: 8192, InFlight: 1 << 20}, 2, false},
		"small writes": {rdma.Options{PieceBytes: 4096, PostedBytes: 4096}, 2, true},
	} {
		if raced && testing.Short() && name != "two and tiny" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var network *netsim.Network
			var fabric *fabricsim.Network
			var number atomic.Int32
			transporttest.Run(t, transporttest.Rig{
				New: func(t *testing.T) transport.Transport {
					i := number.Add(1)
					o := c.o
					var err error
					if o.Control, err = network.Node(fmt.Sprint("node", i)); err != nil {
						t.Fatal(err)
					}
					if o.Fabric, err = fabric.Machine(fmt.Sprint("node", i), fabricsim.MachineConfig{Ports: fabricsim.RoCE(uint8(i), c.ports)}); err != nil {
						t.Fatal(err)
					}
					rt, err := rdma.New(o)
					if err != nil {
						t.Fatal(err)
					}
					return &settled{rt, c.registered}
				},
				Around: func(t *testing.T, test func(t *testing.T)) {
					synctest.Test(t, func(t *testing.T) {
						number.Store(0)
						network = netsim.New(netsim.Config{Seed: 1, BytesInFlightMax: 256 << 20,
							Shape: netsim.Shape{DelayMin: time.Millisecond, DelayMax: 2 * time.Millisecond, BytesPerSecond: 10 << 30}})
						fabric = fabricsim.New(fabricsim.Config{Seed: 1, DelayMin: 20 * time.Microsecond, DelayMax: 200 * time.Microsecond, BytesPerSecond: 2 << 30})
						defer network.Close()
						defer fabric.Close()
						test(t)
					})
				},
			})
		})
	}
}

// settled is a transport whose links are given out when RDMA is up. With registered set, all
// memory of fetches and of replies is known to it for their time.
type settled struct {
	*rdma.Transport
	registered bool
}

func (s *settled) Dial(ctx context.Context, address string, self transport.Hello) (transport.Link, error) {
	l, err := s.Transport.Dial(ctx, address, self)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); s.Way(l.Peer().Node).Name != "rdma"; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Second {
			_ = l.Close()
			return nil, fmt.Errorf("RDMA does not come up: %+v", s.Way(l.Peer().Node))
		}
	}
	if s.registered {
		return &registering{l, s}, nil
	}
	return l, nil
}

func (s *settled) Serve(self transport.Hello, h transport.Handler) error {
	if s.registered {
		h = &registeringHandler{h, s}
	}
	return s.Transport.Serve(self, h)
}

// register makes pieces known until the function that it returns is called.
func (s *settled) register(pieces [][]byte, use transport.Use) (release func()) {
	var all []func()
	for _, p := range pieces {
		if len(p) > 0 {
			if end, err := s.RegisterMemory(p, use); err == nil { // not of one that is closed
				all = append(all, end)
			}
		}
	}
	return func() {
		for _, end := range all {
			end()
		}
	}
}

type registering struct {
	transport.Link
	s *settled
}

func (r *registering) Fetch(ctx context.Context, kind transport.Kind, body []byte, f *transport.Fetching) ([]byte, error) {
	inner := *f
	releases := make([]func(), len(f.Blocks))
	for i, b := range f.Blocks {
		releases[i] = sync.OnceFunc(r.s.register(b.Dst, transport.Destination))
	}
	if f.Arrived != nil {
		inner.Arrived = func(i int) {
			releases[i]()
			f.Arrived(i)
		}
	}
	inner.Released = func(i int) {
		releases[i]()
		if f.Released != nil {
			f.Released(i)
		}
	}
	answer, err := r.Link.Fetch(ctx, kind, body, &inner)
	for i := range f.Blocks {
		if f.Blocks[i].Status != transport.Late {
			releases[i]()
		}
	}
	return answer, err
}

type registeringHandler struct {
	transport.Handler
	s *settled
}

func (h *registeringHandler) Fetch(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	return h.Handler.Fetch(ctx, from, kind, body, n, &registeringReply{r, h.s})
}

type registeringReply struct {
	transport.Reply
	s *settled
}

func (r *registeringReply) Block(i int, pieces [][]byte, checksum uint64, done func()) {
	release := r.s.register(pieces, transport.Source)
	r.Reply.Block(i, pieces, checksum, func() {
		release()
		done()
	})
}
