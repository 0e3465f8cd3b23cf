package rdma

import (
	"context"
	"fmt"
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
	turn     int // bytes of a turn
	sends    int // writes that are posted, at most
	reaping  sync.WaitGroup

	making making // the send goroutine's

	mu        sync.Mutex
	changed   *sync.Cond          // turns, what is posted, dead
	waiting   map[*asked]*waiting // requests that have blocks here: one has its turn, perhaps, the others are in turns
	turns     []*waiting          // the first is next
	posted    []list              // in order, from number first on
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
	d := &sender{g: g, port: p, pair: pair, table: caller.table, tableKey: caller.tableKey,
		piece: o.PieceBytes, turn: turnBytes(o), sends: sends, first: 1, waiting: map[*asked]*waiting{}}
	if most := p.info.Limits.MessageBytesMax; most > 0 {
		d.piece = min(d.piece, most)
	}
	d.changed = sync.NewCond(&d.mu)
	return d
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
	var left []*outgoing
	lost := 0
	d.mu.Lock()
	for _, w := range d.waiting {
		left = append(left, w.take()...)
	}
	d.mu.Unlock()
	d.release(nil, left...)
	d.mu.Lock()
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
	for i := range posted {
		posted[i].letGo()
	}
}
