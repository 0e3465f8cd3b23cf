package rdmatest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
)

// Start makes the transport of a node, over the control and the fabric of the options.
type Start func(o rdma.Options) (transport.Transport, error)

// node is one machine, over all lives of its process.
type node struct {
	r      *runner
	number int
	name   string
	self   transport.Hello
	dst    [2]*field   // for destinations; the second is known to the transport
	src    [2]*field   // for sources, likewise
	stuck  atomic.Bool // a queue pair of it may be left: memory need not come back

	mu   sync.Mutex
	life *life // nil: down
}

// life is a process.
type life struct {
	n      *node
	t      transport.Transport
	plain  bool // without RDMA
	server *server
	served chan error

	dialling chan struct{} // of capacity 1: held by whoever makes a link
	links    map[*node]transport.Link
	probes   sync.WaitGroup

	mu       sync.Mutex
	dead     bool
	releases [2][]func() // of destinations and sources
}

func newNode(r *runner, i int) *node {
	name := fmt.Sprint("n", i)
	return &node{r: r, number: i, name: name,
		self: transport.Hello{PoolID: "pool", Node: member.ID{byte(i + 1)}, Name: name, ProtocolLow: 1, ProtocolHigh: 1},
		dst:  [2]*field{newField(), newField()}, src: [2]*field{newField(), newField()}}
}

func (n *node) now() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// begin starts a process, if there is none.
func (n *node) begin() {
	if n.now() != nil {
		return
	}
	r, c := n.r, &n.r.h.Config
	control, err := r.net.Node(n.name)
	if err != nil {
		r.fail("node %s: %v", n.name, err)
		return
	}
	machine, err := r.fabric.Machine(n.name, fabricsim.MachineConfig{Ports: fabricsim.RoCE(uint8(n.number+1), c.Ports[n.number]), MemoryLockBytes: c.LockBytes[n.number]})
	if err != nil {
		r.fail("node %s: %v", n.name, err)
		return
	}
	for i := range c.Ports[n.number] {
		r.fabric.SetPort(n.name, portName(i), true)
	}
	l := &life{n: n, served: make(chan error, 1), dialling: make(chan struct{}, 1), links: map[*node]transport.Link{}}
	l.server = &server{r: r, n: n}
	l.t, err = r.start(rdma.Options{Control: control, Fabric: machine, Path: fabric.Path{Timeout: c.Timeout, Retries: c.Retries},
		PieceBytes: c.PieceBytes, PostedBytes: c.PostedBytes, LandingBytes: c.LandingBytes, InFlight: c.InFlight, FenceTime: c.FenceTime,
		OpenTime: c.OpenTime, PauseMin: c.PauseMin, PauseMax: c.PauseMax, Logger: slog.New(slog.NewTextHandler(logWriter{r.log, n.name}, nil))})
	if err != nil {
		r.log.printf("%s has no RDMA: %v", n.name, err)
		if c.LockBytes[n.number] == 0 || !errors.Is(err, fabric.ErrMemoryLock) {
			r.fail("node %s: %v", n.name, err)
		}
		l.t, l.plain = control, true
	}
	l.register(0)
	l.register(1)
	go func() { l.served <- l.t.Serve(n.self, l.server) }()
	n.mu.Lock()
	n.life = l
	n.mu.Unlock()
}

func portName(i int) string { return fmt.Sprintf("sim%d:1", i) }

// register makes memory known: destinations (0) or sources (1).
func (l *life) register(which int) {
	registrar, ok := l.t.(transport.Registrar)
	if !ok {
		return
	}
	use, mem, parts := transport.Destination, l.n.dst[1].mem, l.n.r.h.Config.RegisteredParts
	if which == 1 {
		use, mem = transport.Source, l.n.src[1].mem
	}
	for i := range parts {
		part := mem[len(mem)/parts*i:]
		if i < parts-1 {
			part = part[:len(mem)/parts]
		}
		release, err := registrar.RegisterMemory(part, use)
		if err != nil {
			if l.n.r.h.Config.LockBytes[l.n.number] == 0 || !errors.Is(err, fabric.ErrMemoryLock) {
				l.n.r.fail("%s: memory cannot be registered: %v", l.n.name, err)
			}
			continue
		}
		l.mu.Lock()
		l.releases[which] = append(l.releases[which], release)
		l.mu.Unlock()
	}
}

// unregister ends register.
func (l *life) unregister(which int) {
	l.mu.Lock()
	releases := l.releases[which]
	l.releases[which] = nil
	l.mu.Unlock()
	for _, release := range releases {
		release()
	}
}

// link is that to another node, made if there is none.
func (l *life) link(ctx context.Context, other *node) (transport.Link, error) {
	l.dialling <- struct{}{}
	defer func() { <-l.dialling }()
	if have := l.links[other]; have != nil {
		select {
		case <-have.Gone():
			delete(l.links, other)
			if err := have.Close(); err != nil {
				l.n.r.fail("%s: the end of a link that is gone: %v", l.n.name, err)
			}
		default:
			return have, nil
		}
	}
	made, err := l.t.Dial(ctx, other.name, l.n.self)
	if err != nil {
		return nil, err
	}
	l.links[other] = made
	l.probes.Go(func() { l.probe(other, made) })
	return made, nil
}

// probe finds out that the peer of a link has no power any more: a call that only waits for
// its answer does not.
func (l *life) probe(other *node, link transport.Link) {
	for {
		select {
		case <-link.Gone():
			return
		case <-time.After(500 * time.Millisecond):
		}
		ctx, stop := context.WithTimeout(context.Background(), l.n.r.h.Config.SilenceMax+time.Second)
		_, err := link.Call(ctx, kindEcho, nil)
		stop()
		if err != nil {
			l.closeLink(other, link)
			return
		}
	}
}

// closeLink ends a link to another node, whatever it carries; nil means the latest.
func (l *life) closeLink(other *node, link transport.Link) {
	l.dialling <- struct{}{}
	defer func() { <-l.dialling }()
	if have := l.links[other]; have != nil && (link == nil || have == link) {
		delete(l.links, other)
		if err := have.Close(); err != nil {
			l.n.r.fail("%s: the end of a link: %v", l.n.name, err)
		}
	}
}

// die ends the process from outside: what it had of the network and of devices is gone first.
func (n *node) die(powerCut bool) bool {
	n.mu.Lock()
	l := n.life
	n.life = nil
	n.mu.Unlock()
	if l == nil {
		return false
	}
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	if powerCut {
		n.r.net.Vanish(n.name)
	} else {
		n.r.net.Kill(n.name)
	}
	n.r.fabric.Kill(n.name)
	n.r.note(func(f *Figures) { f.Crashes++ })
	l.close()
	return true
}

// stop ends the process in order.
func (n *node) stop() {
	n.mu.Lock()
	l := n.life
	n.life = nil
	n.mu.Unlock()
	if l != nil {
		l.close()
	}
}

func (l *life) close() {
	r := l.n.r
	if ways, ok := l.t.(transport.Ways); ok {
		for _, other := range r.nodes {
			w := ways.Way(other.self.Node)
			r.note(func(f *Figures) {
				f.Remote, f.Sent, f.Fallbacks, f.Fences = f.Remote+w.Blocks, f.Sent+w.SentBlocks, f.Fallbacks+w.Fallbacks, f.Fences+w.Fences
				f.Destroyed, f.Connects, f.Failures = f.Destroyed+w.Destroyed, f.Connects+w.Connects, f.Failures+w.Failures
			})
		}
	}
	began := time.Now()
	if err := l.t.Close(); err != nil {
		r.fail("%s: Close: %v", l.n.name, err)
	}
	l.probes.Wait()
	if err := <-l.served; err != nil {
		r.fail("%s: Serve: %v", l.n.name, err)
	}
	if took := time.Since(began); took > closeMax {
		r.fail("HANG: %s took %v to close", l.n.name, took)
	}
	if running := l.server.running.Load(); running != 0 {
		r.fail("%s: %d handlers run after Close", l.n.name, running)
	}
	if lent := l.server.lent.Load(); lent != 0 && !l.n.stuck.Load() {
		r.fail("SOURCE: %s was never done with %d blocks", l.n.name, lent)
	}
	l.unregister(0)
	l.unregister(1)
}

// closeMax is what Close may take.
const closeMax = 30 * time.Second

// settle looks at all memory at the end.
func (n *node) settle() {
	for i, f := range [...]*field{n.dst[0], n.dst[1], n.src[0], n.src[1]} {
		what := [...]string{"unknown destinations", "known destinations", "unknown sources", "known sources"}[i]
		lent, pure := f.settle()
		if lent > 0 && !n.stuck.Load() {
			n.r.fail("RELEASE: %d blocks of %s of %s were never released", lent, what, n.name)
		}
		if !pure {
			n.r.fail("MEMORY: of %s of %s, somebody wrote to some that was the test's again", what, n.name)
		}
	}
}

// logWriter takes the log of a node in.
type logWriter struct {
	log *logBook
	of  string
}

func (w logWriter) Write(line []byte) (int, error) {
	w.log.printf("  %s: %s", w.of, line[:len(line)-1])
	return len(line), nil
}
