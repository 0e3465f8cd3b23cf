package rdmatest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
)

// Figures say what a history has seen.
type Figures struct {
	Fetches, Done, Missed, Refused, Late, Lost   int
	Skipped, Troubles, Crashes                   int
	Remote, Sent, Fallbacks, Fences, Destroyed   uint64
	Connects, Failures, Orphans, Refusals, Bytes uint64
}

// Add adds other figures.
func (f *Figures) Add(o Figures) {
	f.Fetches, f.Done, f.Missed, f.Refused = f.Fetches+o.Fetches, f.Done+o.Done, f.Missed+o.Missed, f.Refused+o.Refused
	f.Late, f.Lost, f.Skipped, f.Troubles = f.Late+o.Late, f.Lost+o.Lost, f.Skipped+o.Skipped, f.Troubles+o.Troubles
	f.Crashes, f.Remote, f.Sent, f.Fallbacks = f.Crashes+o.Crashes, f.Remote+o.Remote, f.Sent+o.Sent, f.Fallbacks+o.Fallbacks
	f.Fences, f.Destroyed, f.Connects, f.Failures = f.Fences+o.Fences, f.Destroyed+o.Destroyed, f.Connects+o.Connects, f.Failures+o.Failures
	f.Orphans, f.Refusals, f.Bytes = f.Orphans+o.Orphans, f.Refusals+o.Refusals, f.Bytes+o.Bytes
}

// Result is the judgement of one history.
type Result struct {
	Err     error // nil: every promise was kept
	Figures Figures
	Log     string // of what happened
}

// realTimeMax is what no history takes, by far; virtualTimeMax in virtual time.
const (
	realTimeMax    = 3 * time.Minute
	virtualTimeMax = 2 * time.Hour
)

// Run carries a history out in virtual time, within a bubble of testing/synctest, with
// transports that start makes.
func Run(t *testing.T, h *History, start Start) (res Result) {
	// Goroutines that spin, or wait for a mutex, hold virtual time still.
	alarm := time.AfterFunc(realTimeMax, func() {
		panic(fmt.Sprintf("rdma history %d (%s) takes more than %v of real time\n%s", h.Seed, h.Mode, realTimeMax, stacks()))
	})
	defer alarm.Stop()
	var r *runner
	defer func() {
		if p := recover(); p != nil { // the bubble has goroutines left
			panic(fmt.Sprintf("rdma history %d (%s): %v\n%s", h.Seed, h.Mode, p, r.log.tail()))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		r = newRunner(h, start)
		r.run()
		res = Result{r.err, r.figures, r.log.tail()}
	})
	return res
}

func stacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}

// runner is one run of a history.
type runner struct {
	h      *History
	start  Start
	log    *logBook
	net    *netsim.Network
	fabric *fabricsim.Network
	nodes  []*node
	over   chan struct{} // closed when clients are done and troubles shall end

	mu      sync.Mutex
	err     error // the first broken promise
	figures Figures
}

func newRunner(h *History, start Start) *runner {
	c := &h.Config
	r := &runner{h: h, start: start, log: &logBook{start: time.Now()}, over: make(chan struct{})}
	r.net = netsim.New(netsim.Config{Seed: h.Seed, SilenceMax: c.SilenceMax, Trace: r.trace("net"),
		Shape: netsim.Shape{DelayMin: c.DelayMax / 4, DelayMax: c.DelayMax, BytesPerSecond: c.BytesPerSecond}})
	r.fabric = fabricsim.New(fabricsim.Config{Seed: h.Seed, DelayMin: c.FabricDelay / 4, DelayMax: c.FabricDelay,
		BytesPerSecond: c.FabricRate, BurstPackets: c.BurstPackets, SettleMax: c.SettleMax, DestroyMax: c.DestroyMax, Trace: r.trace("fabric")})
	for i := range c.Ports {
		r.nodes = append(r.nodes, newNode(r, i))
	}
	return r
}

func (r *runner) trace(of string) func(format string, args ...any) {
	return func(format string, args ...any) { r.log.printf("  "+of+": "+format, args...) }
}

func (r *runner) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.log.printf("BROKEN: %v", r.err)
	}
}

func (r *runner) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func (r *runner) note(add func(f *Figures)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.figures)
}

func (r *runner) run() {
	watched := time.AfterFunc(virtualTimeMax, func() {
		panic(fmt.Sprintf("rdma history %d (%s): HANG: it does not end\n%s\n%s", r.h.Seed, r.h.Mode, r.log.tail(), stacks()))
	})
	defer watched.Stop()
	for _, n := range r.nodes {
		n.begin()
	}
	var clients, troubles sync.WaitGroup
	for i := range r.h.Troubles {
		troubles.Go(func() { r.trouble(&r.h.Troubles[i]) })
	}
	for i := range r.h.Clients {
		clients.Go(func() { r.client(i, &r.h.Clients[i]) })
	}
	clients.Wait()
	close(r.over)
	troubles.Wait()
	r.heal()
	if !r.failed() {
		r.finish()
	}
	for _, n := range r.nodes {
		n.stop()
	}
	r.note(func(f *Figures) {
		c := r.fabric.Counts()
		f.Orphans, f.Refusals, f.Bytes = c.Orphans, c.Refused, c.Bytes
	})
	if refused := r.fabric.Counts().Refused; refused > 0 {
		r.fail("REFUSED: devices did not take %d writes: there was no receive, or no such memory", refused)
	}
	r.fabric.Close()
	r.net.Close()
	for _, n := range r.nodes {
		n.settle()
	}
}

// sleep waits, unless the clients are done.
func (r *runner) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-r.over:
	}
}

// logBook keeps what has happened.
type logBook struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

const logLines = 400

func (b *logBook) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) >= 2*logLines {
		b.lines = append(b.lines[:0], b.lines[logLines:]...)
	}
	b.lines = append(b.lines, fmt.Sprintf("%-12v ", time.Since(b.start))+fmt.Sprintf(format, args...))
}

func (b *logBook) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}
