package historytest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member/membertest"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
)

// Result is the judgement of one history.
type Result struct {
	Err     error // nil: every promise was kept
	Figures Figures
}

// Run carries a history out in virtual time, within a bubble of testing/synctest, with
// nodes that start makes.
func Run(t *testing.T, h *History, start Start) (res Result) {
	// Goroutines that spin, or wait for a mutex, hold virtual time still.
	alarm := time.AfterFunc(realTimeMax, func() {
		panic(fmt.Sprintf("cluster history %d (%s) takes more than %v of real time\n%s", h.Seed, h.Mode, realTimeMax, stacks()))
	})
	defer alarm.Stop()
	var r *runner
	defer func() {
		if p := recover(); p != nil { // the bubble has goroutines left
			panic(fmt.Sprintf("cluster history %d (%s): %v\n%s", h.Seed, h.Mode, p, r.log.tail()))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		r = newRunner(h, start)
		r.run()
		res = Result{r.err, r.model.figures}
	})
	return res
}

// realTimeMax is what no history takes, by far.
const realTimeMax = 3 * time.Minute

func stacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}

// runner is one run of a history.
type runner struct {
	h     *History
	start Start
	model *model
	log   *logBook
	net   *netsim.Network
	rdma  carrier
	world *membertest.World
	nodes []*node
	calls callBook

	over   chan struct{} // closed when clients and troubles shall end
	places places

	mu  sync.Mutex
	err error // the first broken promise
}

func newRunner(h *History, start Start) *runner {
	c := &h.Config
	r := &runner{h: h, start: start, model: newModel(), log: newLogBook(), over: make(chan struct{})}
	r.calls.flying = map[*flight]struct{}{}
	r.net = netsim.New(netsim.Config{Seed: h.Seed, SilenceMax: c.SilenceMax, Trace: func(format string, args ...any) { r.log.printf("  net: "+format, args...) },
		Shape: netsim.Shape{DelayMin: c.DelayMax / 4, DelayMax: c.DelayMax, BytesPerSecond: c.BytesPerSecond}})
	r.rdma = newCarrier(h, r.log)
	r.world = membertest.New(h.Seed, c.LagMax/4, c.LagMax)
	for i := range c.Nodes {
		r.nodes = append(r.nodes, r.newNode(i))
	}
	return r
}

func (r *runner) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.log.printf("BROKEN: %v", r.err)
	}
}

// check fails the history if err is not nil.
func (r *runner) check(err error) {
	if err != nil {
		r.fail("%w", err)
	}
}

func (r *runner) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func (r *runner) run() {
	watched := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(stop)
	}()
	r.begin()
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
		r.check(n.stop())
	}
	r.net.Close()
	r.rdma.close()
	r.places.settle(r)
	close(stop)
	<-watched
	if r.err != nil {
		r.err = fmt.Errorf("%w\n%s", r.err, r.log.tail())
	}
}

// begin starts the nodes that are there from the beginning, all at once.
func (r *runner) begin() {
	late := map[int]bool{}
	for _, t := range r.h.Troubles {
		late[t.Node] = late[t.Node] || t.Kind == Late
	}
	var starting sync.WaitGroup
	for i, n := range r.nodes {
		if !late[i] {
			starting.Go(func() { r.check(n.begin()) })
		}
	}
	starting.Wait()
	for i, n := range r.nodes {
		if !late[i] && !r.failed() {
			select {
			case <-n.life().joined():
			case <-time.After(time.Minute):
				r.fail("node %d has not joined after a minute", i)
			}
		}
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

func (b *logBook) tail() string {
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}
