package rdmatest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

const (
	slack   = time.Millisecond // what the code's own goroutines do takes no virtual time
	callMax = 2 * time.Minute  // of a call without a deadline
	dialMax = time.Second
)

// client runs the operations of one client.
func (r *runner) client(number int, c *Client) {
	for i := range c.Ops {
		o := &c.Ops[i]
		r.sleepFor(o.Pause)
		l := r.nodes[c.Node].now()
		if l == nil || r.failed() {
			r.note(func(f *Figures) { f.Skipped++ })
			continue
		}
		a := &asking{r: r, l: l, other: r.nodes[c.Other], op: o, first: uint64(number+1)<<32 + uint64(i)<<12,
			name: fmt.Sprintf("client %d (%s of %s), op %d: %s", number, l.n.name, r.nodes[c.Other].name, i, o.Kind)}
		a.run()
	}
}

func (r *runner) sleepFor(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// asking is one operation under way.
type asking struct {
	r     *runner
	l     *life
	other *node
	op    *Op
	name  string
	first uint64 // ID of its first block

	cancel   context.CancelFunc
	deadline time.Time // zero: none
	err      error

	mu       sync.Mutex
	gaveUp   time.Time // by CancelAt
	arrivals int
	asked    []*asked
}

// asked is one block of an operation.
type asked struct {
	Block
	id      uint64
	f       *field
	p       place
	arrived bool
	ours    bool // the memory is the test's again
}

func (a *asking) fail(format string, args ...any) {
	a.r.fail("%s", fmt.Sprintf(format, args...)+": "+a.name)
}

func (a *asking) run() {
	switch a.op.Kind {
	case Close:
		a.l.closeLink(a.other, nil)
		return
	case Register:
		a.register()
		return
	}
	dialing, stop := context.WithTimeout(context.Background(), dialMax)
	link, err := a.l.link(dialing, a.other)
	stop()
	if err != nil {
		a.r.note(func(f *Figures) { f.Skipped++ })
		if a.r.h.Mode == Calm || a.r.h.Mode == Hasty {
			a.fail("a dial failed: %v", err)
		}
		return
	}
	ctx, stop := a.context()
	defer stop()
	began := time.Now()
	switch a.op.Kind {
	case Call:
		a.call(ctx, link)
	case Push:
		a.push(ctx, link)
	case Fetch:
		a.fetch(ctx, link)
	}
	a.inTime(began)
	a.judgeError(ctx)
}

// context is that of the operation.
func (a *asking) context() (ctx context.Context, stop context.CancelFunc) {
	ctx, a.cancel = context.WithCancel(context.Background())
	d := a.op.Deadline
	if d == 0 {
		return ctx, a.cancel
	}
	a.deadline = time.Now().Add(d)
	if a.op.Cancel {
		timer := time.AfterFunc(d, a.cancel)
		return ctx, func() { timer.Stop(); a.cancel() }
	}
	ctx, ended := context.WithDeadline(ctx, a.deadline)
	return ctx, func() { ended(); a.cancel() }
}

// inTime demands that the call came back when its context had ended.
func (a *asking) inTime(began time.Time) {
	until := began.Add(callMax)
	if !a.deadline.IsZero() {
		until = a.deadline
	}
	if !a.gaveUp.IsZero() && a.gaveUp.Before(until) {
		until = a.gaveUp
	}
	if late := time.Since(until); late > slack {
		a.fail("HANG: it came back %v after its time", late)
	}
}

// judgeError looks at how a call ended.
func (a *asking) judgeError(ctx context.Context) {
	_, remote := errors.AsType[*transport.RemoteError](a.err)
	switch {
	case a.err == nil:
	case errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded):
		if ctx.Err() == nil {
			a.fail("ERROR: %v, and its context has not ended", a.err)
		}
	case errors.Is(a.err, transport.ErrLost):
		if a.r.h.Mode == Calm {
			a.fail("ERROR: %v, and all is calm", a.err)
		}
	case remote:
		if a.r.h.Mode == Calm && !a.toldToFail() {
			a.fail("ERROR: %v, and all is calm", a.err)
		}
	default:
		a.fail("ERROR: %v, which is of no kind", a.err)
	}
}

func (a *asking) toldToFail() bool {
	for _, b := range a.op.Blocks {
		if b.What == Fail {
			return true
		}
	}
	return false
}

func (a *asking) call(ctx context.Context, link transport.Link) {
	var answer []byte
	answer, a.err = link.Call(ctx, kindEcho, []byte("abc"))
	if a.err == nil && string(answer) != "cba" {
		a.fail("WRONG BYTES: the answer is %q", answer)
	}
}

func (a *asking) push(ctx context.Context, link transport.Link) {
	b := make([]byte, 10_000)
	fill(b, a.first)
	_, a.err = link.Push(ctx, kindTake, binary.LittleEndian.AppendUint64(nil, a.first), [][][]byte{cut(b, 3)})
	transporttest.Spoil(b)
}

// register makes the node's known memory known anew, while nothing of it is lent.
func (a *asking) register() {
	for which, f := range [...]*field{a.l.n.dst[1], a.l.n.src[1]} {
		f.whenIdle(func() {
			a.l.mu.Lock()
			dead := a.l.dead
			a.l.mu.Unlock()
			if !dead && a.l.n.now() == a.l {
				a.l.unregister(which)
				a.l.register(which)
			}
		})
	}
}
