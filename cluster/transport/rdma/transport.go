package rdma

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// Transport has blocks come by RDMA, and everything else by its control. It implements
// transport.Transport, transport.Registrar and transport.Ways. All methods may be called
// from many goroutines.
type Transport struct {
	o       Options
	ports   []*port // by port.index
	regions regions
	landing *room // blocks come here whose destination is not registered
	staging *room // blocks go from here whose source is not registered
	serving *serving
	began   time.Time
	plain   atomic.Int64 // until then fetches go by the control: nanoseconds since began, whatever the wall clock does; 0: no such time

	closing sync.Once
	mu      sync.Mutex
	peers   map[member.ID]*peer
	leaves  uint64 // of users of peers, so far
	links   map[*Link]bool
	closed  bool
}

// New makes a transport of a control and the RDMA ports of this machine. The control is
// the Transport's from then on. An error says why there is no RDMA here (fabric.ErrNone and
// fabric.ErrMemoryLock are causes); the control is the caller's then, and as it was.
func New(o Options) (*Transport, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	ports, err := openPorts(&o)
	if err != nil {
		return nil, err
	}
	t := &Transport{o: o, ports: ports, began: time.Now(), peers: map[member.ID]*peer{}, links: map[*Link]bool{}}
	t.regions.ports = ports
	if t.landing, err = newRoom(&t.regions, o.LandingBytes, transport.Destination); err == nil {
		t.staging, err = newRoom(&t.regions, o.LandingBytes, transport.Source)
	}
	if err != nil {
		t.giveBack()
		return nil, err
	}
	t.serving = newServing(t)
	return t, nil
}

// Name is "rdma".
func (t *Transport) Name() string { return "rdma" }

// Address is the control's.
func (t *Transport) Address() net.Addr { return t.o.Control.Address() }

// Serve implements transport.Transport.
func (t *Transport) Serve(self transport.Hello, h transport.Handler) error {
	return t.o.Control.Serve(self, t.serving.wrap(h))
}

// Dial implements transport.Transport. Fetches of the link go by the control until RDMA is
// up, which nobody waits for.
func (t *Transport) Dial(ctx context.Context, address string, self transport.Hello) (transport.Link, error) {
	control, err := t.o.Control.Dial(ctx, address, self)
	if err != nil {
		return nil, err
	}
	l := newLink(t, control)
	if !t.add(l) {
		t.leave(l.peer)
		_ = control.Close()
		return nil, fmt.Errorf("%w: the transport is closed", transport.ErrLost)
	}
	return l, nil
}

// add takes a link into the books and starts its keeper; false once the transport is closed.
func (t *Transport) add(l *Link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.links[l] = true
	go l.keep()
	return true
}

func (t *Transport) remove(l *Link) {
	t.leave(l.peer)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.links, l)
}

// RegisterMemory implements transport.Registrar.
func (t *Transport) RegisterMemory(mem []byte, use transport.Use) (release func(), err error) {
	switch {
	case len(mem) == 0 || use == 0 || use&^(transport.Source|transport.Destination) != 0:
		panic(fmt.Sprintf("rdma: memory of %d bytes is registered for %d", len(mem), use))
	case len(mem) > transport.RegisterBytesMax:
		return nil, fmt.Errorf("a piece of memory of %d bytes, at most %d are registered at once", len(mem), transport.RegisterBytesMax)
	}
	r, err := t.regions.add(mem, use)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		if err := t.regions.remove(r); err != nil {
			t.o.Logger.Error("memory stays registered with an RDMA device", "bytes", len(mem), "err", err)
		}
	}), nil
}

// PlainFor implements transport.Ways.
func (t *Transport) PlainFor(d time.Duration) {
	if d <= 0 {
		t.plain.Store(0)
		return
	}
	since := time.Since(t.began)
	t.plain.Store(int64(since + min(d, math.MaxInt64-since)))
}

// plainLeft is for how long fetches still go by the control.
func (t *Transport) plainLeft() time.Duration {
	until := time.Duration(t.plain.Load())
	if until == 0 {
		return 0
	}
	return max(0, until-time.Since(t.began))
}

// Close implements transport.Transport. Memory that is still registered is so no more.
func (t *Transport) Close() error {
	var err error
	t.closing.Do(func() {
		t.mu.Lock()
		t.closed = true
		links := make([]*Link, 0, len(t.links))
		for l := range t.links {
			links = append(links, l)
		}
		t.mu.Unlock()
		err = t.o.Control.Close()
		for _, l := range links {
			_ = l.Close() // of which nothing but the end is wanted
		}
		t.serving.close()
		t.giveBack()
	})
	return err
}

// giveBack ends what New has made. If a queue pair could not be destroyed, a device may still
// write anywhere: all stays as it is then.
func (t *Transport) giveBack() {
	for _, p := range t.ports {
		if p.broken.Load() {
			t.o.Logger.Error("RDMA devices stay open, and memory registered, since a queue pair could not be destroyed", "port", p.info.Name())
			return
		}
	}
	for _, r := range []*room{t.landing, t.staging} {
		if r == nil {
			continue
		}
		if err := r.close(); err != nil {
			t.o.Logger.Error("memory stays registered with an RDMA device", "bytes", len(r.mem), "err", err)
		}
	}
	if err := t.regions.close(); err != nil {
		t.o.Logger.Error("an RDMA device cannot be closed", "err", err)
	}
}
