package rdma

import (
	"context"
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

// postLocked posts a list. After an error the session is to fail: some of the list may be
// posted, so that its memory is let go of like that of the others.
func (d *sender) postLocked(l list, writes []fabric.Write) error {
	err := d.pair.PostWrites(d.first+uint64(len(d.posted)), writes)
	d.posted = append(d.posted, l)
	d.writes += l.writes
	d.bytes += l.bytes
	return err
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
	var posted []list
	lost := 0
	d.mu.Lock()
	queue := d.queue
	d.queue = nil
	if d.destroyed {
		posted, d.posted = d.posted, nil
	}
	for i := range d.posted {
		for _, b := range d.posted[i].berths {
			lost += len(b.units)
		}
	}
	d.mu.Unlock()
	if lost > 0 {
		d.g.s.t.staging.lose(lost)
	}
	for _, o := range queue {
		o.finish()
	}
	for i := range posted {
		posted[i].letGo()
	}
}
