package rdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// sender posts the blocks of one rail of a session. Its send goroutine makes lists of writes
// and posts them, its reap goroutine takes their completions and lets go of memory.
type sender struct {
	g        *guest
	port     *port
	pair     fabric.QueuePair
	table    uint64
	tableKey uint32
	piece    int // bytes of a write, at most
	sends    int // writes that are posted, at most
	reaping  sync.WaitGroup

	making making // the send goroutine's

	mu        sync.Mutex
	changed   *sync.Cond  // the queue, what is posted, dead
	queue     []*outgoing // blocks that nothing is posted of
	posted    []list      // in order, from number first on
	first     uint64
	writes    int   // posted
	bytes     int64 // posted
	begun     bool  // a block has come
	dead      bool  // nothing is posted any more
	destroyed bool
}

// list is a list of writes that is posted as one.
type list struct {
	writes int
	bytes  int64
	berths []*berth    // that are free when it has completed
	blocks []*outgoing // that are through with when it has completed
}

// sendError is the cause of a session's end that writes of this side have failed.
type sendError struct{ err error }

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

func newSender(g *guest, p *port, pair fabric.QueuePair, caller *callerRail, sends int) *sender {
	o := &g.s.t.o
	d := &sender{g: g, port: p, pair: pair, table: caller.table, tableKey: caller.tableKey, piece: o.PieceBytes, sends: sends, first: 1}
	if most := p.info.Limits.MessageBytesMax; most > 0 {
		d.piece = min(d.piece, most)
	}
	d.changed = sync.NewCond(&d.mu)
	return d
}

// add queues a block; false if nothing is posted any more.
func (d *sender) add(o *outgoing) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false
	}
	d.begun = true
	d.queue = append(d.queue, o)
	d.changed.Broadcast()
	return true
}

// withdraw takes blocks of a request that is halted off the queue.
func (d *sender) withdraw(r *asked) {
	var off []*outgoing
	d.mu.Lock()
	d.queue = slices.DeleteFunc(d.queue, func(o *outgoing) bool {
		if o.r == r {
			off = append(off, o)
		}
		return o.r == r
	})
	d.changed.Broadcast()
	d.mu.Unlock()
	for _, o := range off {
		o.finish()
	}
}

// next waits for a block and takes it off the queue; nil: nothing is posted any more.
func (d *sender) next() *outgoing {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.dead && len(d.queue) == 0 {
		d.changed.Wait()
	}
	if d.dead {
		return nil
	}
	return d.popLocked()
}

// follower takes the first block off the queue, if it is one of r.
func (d *sender) follower(r *asked) *outgoing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead || len(d.queue) == 0 || d.queue[0].r != r {
		return nil
	}
	return d.popLocked()
}

func (d *sender) popLocked() *outgoing {
	o := d.queue[0]
	d.queue[0] = nil
	if d.queue = d.queue[1:]; len(d.queue) == 0 {
		d.queue = nil
	}
	return o
}

// marksAtOnce is the room in the queue that blocks leave to marks.
const marksAtOnce = 8

// mark posts a mark behind all that is posted. Of a request that was halted before nothing is
// posted behind it.
func (d *sender) mark(ctx context.Context, mark uint16) error {
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.changed.Broadcast()
	})
	defer stop()
	d.mu.Lock()
	for !d.dead && d.writes >= d.sends && ctx.Err() == nil {
		d.changed.Wait()
	}
	err := ctx.Err()
	dead := d.dead
	if !dead && err == nil {
		d.begun = true
		err = d.postLocked(list{writes: 1}, []fabric.Write{{Notify: true, Immediate: markImmediate(mark)}})
	}
	d.mu.Unlock()
	switch {
	case dead:
		return &transport.RemoteError{Code: transport.CodeUnknown, Text: errNoRail.Error()}
	case err != nil && ctx.Err() == nil:
		d.fail(fmt.Errorf("post a mark on %s: %w", d.port.info.Name(), err))
	}
	return err
}

// postLocked posts a list.
func (d *sender) postLocked(l list, writes []fabric.Write) error {
	if err := d.pair.PostWrites(d.first+uint64(len(d.posted)), writes); err != nil {
		return err
	}
	d.posted = append(d.posted, l)
	d.writes += l.writes
	d.bytes += l.bytes
	return nil
}

// reap takes completions until one fails, or the queue pair is destroyed.
func (d *sender) reap() {
	var c [32]fabric.Completion
	for {
		n, err := d.pair.Sends().Wait(c[:])
		if err != nil {
			if !errors.Is(err, fabric.ErrClosed) {
				d.fail(fmt.Errorf("completions of %s: %w", d.port.info.Name(), err))
			}
			return
		}
		for _, c := range c[:n] {
			if c.Result != fabric.OK {
				d.failed(c)
				return
			}
			d.completed(c.ID)
		}
	}
}

// completed lets go of what belongs to lists up to this one.
func (d *sender) completed(id uint64) {
	d.mu.Lock()
	n := 0
	if id >= d.first {
		n = min(int(id-d.first)+1, len(d.posted))
	}
	done := slices.Clone(d.posted[:n])
	clear(d.posted[:n])
	if d.posted = d.posted[n:]; len(d.posted) == 0 {
		d.posted = nil
	}
	d.first += uint64(n)
	for i := range done {
		d.writes -= done[i].writes
		d.bytes -= done[i].bytes
	}
	d.changed.Broadcast()
	d.mu.Unlock()
	for i := range done {
		for _, o := range done[i].blocks {
			if o.status == transport.Done && !o.r.over() {
				d.g.of.sentBlocks.Add(1)
				d.g.of.sentBytes.Add(uint64(o.wanted().size))
			}
		}
		done[i].letGo()
	}
}

func (l *list) letGo() {
	for _, b := range l.berths {
		b.free()
	}
	for _, o := range l.blocks {
		o.finish()
	}
}

// failed takes the completion of a list that has failed: what is behind it has as well. A
// rail that fails with its probe is left out, by the caller too.
func (d *sender) failed(c fabric.Completion) {
	err := fmt.Errorf("a write from %s failed: %v (%d)", d.port.info.Name(), c.Result, c.Code)
	d.mu.Lock()
	begun := d.begun
	d.dead = d.dead || !begun
	d.changed.Broadcast()
	d.mu.Unlock()
	if begun {
		d.fail(err)
		return
	}
	d.g.s.t.o.Logger.Info("an RDMA rail of a peer's session cannot be used", "peer", d.g.peer.Name, "err", err)
	for _, other := range d.g.there() {
		if !other.isDead() {
			return
		}
	}
	d.g.fail(errNoRail)
}

// fail ends the session because of this rail.
func (d *sender) fail(err error) { d.g.fail(&sendError{err}) }

func (d *sender) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// kill has nothing posted any more.
func (d *sender) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	d.changed.Broadcast()
}

// destroy destroys the queue pair, once.
func (d *sender) destroy() error {
	if err := d.pair.Destroy(); err != nil {
		d.port.broken.Store(true)
		d.g.of.stuck.Add(1)
		return err
	}
	d.reaping.Wait()
	d.port.rails.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.destroyed = true
	return nil
}

// letGo is called when nothing posts any more: it lets go of all memory, of that of posted
// writes only if the queue pair is destroyed.
func (d *sender) letGo() {
	d.mu.Lock()
	queue, posted, destroyed := d.queue, d.posted, d.destroyed
	d.queue = nil
	if destroyed {
		d.posted = nil
	}
	d.mu.Unlock()
	for _, o := range queue {
		o.finish()
	}
	if !destroyed {
		return
	}
	for i := range posted {
		posted[i].letGo()
	}
}
