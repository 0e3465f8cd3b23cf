package rdma

import (
	"context"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// asked is a fetch of a peer: the transport.Reply of its handler. Its blocks go to the
// senders of their rails.
type asked struct {
	g      *guest
	number uint64
	blocks []wantedBlock
	ctx    context.Context // the handler's: ends with the call, and as live
	cancel context.CancelFunc
	live   context.Context // ends when nothing more is to be posted
	end    context.CancelFunc
	bytes  int64 // that it counts in the session

	// Under the guest's mu.
	answered  []bool
	isHalted  bool
	isOver    bool // the handler is over: what it says is not heard
	isHandled bool // and what it left out is missed
	out       int  // blocks that senders have
	gone      bool // nothing is posted, nor will be
	counted   bool // it still counts in the session
}

func newAsked(ctx context.Context, g *guest, m *fetchRequest, nBytes int64) *asked {
	r := &asked{g: g, number: m.request, blocks: m.blocks, bytes: nBytes, counted: true, answered: make([]bool, len(m.blocks))}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.live, r.end = context.WithCancel(context.Background())
	return r
}

// outgoing is a block on its way, or the word that there is none. A sender has it.
type outgoing struct {
	r      *asked
	index  int
	status transport.Status
	sum    uint64
	pieces [][]byte // that are sent, with Done
	done   func()   // nil: no memory is to be let go

	// The sender's own.
	aim    aim
	listed bool // some of it is in the list that is being made
	posted bool // some of it was posted
}

func (o *outgoing) wanted() *wantedBlock { return &o.r.blocks[o.index] }

// Block implements transport.Reply.
func (r *asked) Block(i int, pieces [][]byte, checksum uint64, done func()) {
	o := &outgoing{r: r, index: i, status: transport.Done, sum: checksum, pieces: pieces, done: done}
	if uint64(bytesOf(pieces)) != uint64(r.blocks[i].size) {
		done()
		o = &outgoing{r: r, index: i, status: transport.Miss}
	}
	r.answer(o, true)
}

// None implements transport.Reply.
func (r *asked) None(i int, s transport.Status) {
	if s != transport.Miss && s != transport.Refused {
		panic(fmt.Sprintf("block %d: there is none, with status %d", i, s))
	}
	r.answer(&outgoing{r: r, index: i, status: s}, true)
}

// answer gives a block to its sender, if anybody wants to hear of it.
func (r *asked) answer(o *outgoing, first bool) {
	if !r.enter(o.index, first) {
		if o.done != nil {
			o.done()
		}
		return
	}
	if !r.g.rails[o.wanted().rail].add(o) {
		o.finish()
		r.g.fail(errNoRail)
	}
}

// enter notes that block i is answered and on its way. It panics if that must be the first
// time and is not.
func (r *asked) enter(i int, first bool) bool {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if r.isHalted || r.isHandled || r.g.failed || first && r.isOver {
		return false
	}
	if r.answered[i] {
		if first {
			panic(fmt.Sprintf("block %d is answered twice", i))
		}
		return false
	}
	r.answered[i] = true
	r.out++
	return true
}

// finish is called once for every block that was given to a sender: no device and no
// goroutine reads its memory any more.
func (o *outgoing) finish() {
	if o.done != nil {
		o.done()
	}
	o.r.g.mu.Lock()
	defer o.r.g.mu.Unlock()
	o.r.out--
	o.r.settleLocked()
}

// settleLocked sees whether all is over.
func (r *asked) settleLocked() {
	if r.out > 0 {
		return
	}
	if (r.isHalted || r.isHandled) && !r.gone {
		r.gone = true
		r.end()
		delete(r.g.asked, r.number)
	}
	if r.isHandled && r.counted {
		r.counted = false
		r.g.blocks -= len(r.blocks)
		r.g.bytes -= r.bytes
	}
}

// halt has nothing more of the request posted. It does not wait for what is.
func (r *asked) halt() {
	r.g.mu.Lock()
	if r.isHalted {
		r.g.mu.Unlock()
		return
	}
	r.isHalted = true
	r.end()
	r.settleLocked()
	r.g.mu.Unlock()
	r.cancel()
	for _, d := range r.g.there() {
		d.withdraw(r)
	}
}

// handled is called when the handler is over: what it left out is missed. If it failed
// nothing more is posted.
func (r *asked) handled(failed bool) {
	defer r.cancel()
	r.g.mu.Lock()
	r.isOver = true
	r.g.mu.Unlock()
	if failed {
		r.halt()
	} else {
		for i := range r.blocks {
			r.answer(&outgoing{r: r, index: i, status: transport.Miss}, false)
		}
	}
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.isHandled = true
	r.settleLocked()
}

// bytesOf is the length of pieces together.
func bytesOf(pieces [][]byte) int {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// over reports whether nothing more of the request is to be posted.
func (r *asked) over() bool { return r.live.Err() != nil }
