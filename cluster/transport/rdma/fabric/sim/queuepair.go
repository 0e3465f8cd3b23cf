package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// Codes of completions, as an InfiniBand device numbers them.
const (
	codeLength    = 1
	codeOperation = 2
	codeProtect   = 4
	codeFlushed   = 5
	codeMalformed = 9
	codeDenied    = 10
	codeNoAnswer  = 12
	codeNoReceive = 13
	codeDevice    = 19
)

// state is where a queue pair is.
type state uint8

const (
	fresh state = iota
	ready
	failed
)

// queuePair is one end of a connection.
type queuePair struct {
	d        *device
	o        fabric.QueueOptions
	local    fabric.Endpoint
	received *queue
	sent     *queue
	kick     chan struct{} // of capacity 1: run has something to do
	gone     chan struct{} // closed with destroyed

	// guarded by Network.mu
	state        state
	destroyed    bool
	rng          *rand.Rand
	remote       fabric.Endpoint
	path         fabric.Path
	receives     int // posted
	heldReceives int // by a stopped process
	posted       int // writes whose completion was not taken

	sending
}

var _ fabric.QueuePair = (*queuePair)(nil)

func (q *queuePair) net() *Network { return q.d.net() }

func (d *device) NewQueuePair(o fabric.QueueOptions) (fabric.QueuePair, error) {
	n := d.net()
	n.mu.Lock()
	defer n.mu.Unlock()
	l := d.port.info.Limits
	switch {
	case d.closed || d.port.m.dead:
		return nil, fabric.ErrClosed
	case o.Sends < 1 || o.Sends > l.SendsMax || o.Receives < 1 || o.Receives > l.ReceivesMax:
		return nil, fmt.Errorf("%w: a queue pair of %d sends and %d receives", fabric.ErrUnsupported, o.Sends, o.Receives)
	}
	q := &queuePair{d: d, o: o, kick: make(chan struct{}, 1), gone: make(chan struct{}), rng: rand.New(rand.NewPCG(n.rng.Uint64(), 2))}
	q.received, q.sent = newQueue(q), newQueue(q)
	number := 2 + n.rng.Uint32N(1<<24-2)
	for d.port.queues[number] != nil {
		number = 2 + n.rng.Uint32N(1<<24-2)
	}
	q.local = fabric.Endpoint{Number: number, Packet: n.rng.Uint32N(1 << 24), GID: netip.AddrFrom16(d.gid.Address.As16()),
		LID: d.port.info.LID, MTUBytes: d.port.info.MTUBytes, Ethernet: d.port.info.Ethernet}
	d.port.queues[number] = q
	d.queues++
	return q, nil
}

func (q *queuePair) Local() fabric.Endpoint { return q.local }

func (q *queuePair) Connect(remote fabric.Endpoint, path fabric.Path) error {
	n := q.net()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case q.destroyed || n.closed:
		return fabric.ErrClosed
	case q.state != fresh:
		return errors.New("the queue pair is connected, or has failed")
	case !q.d.port.info.Active:
		return fmt.Errorf("port %s is %s", q.d.port.info.Name(), q.d.port.info.State)
	case remote.Ethernet != q.local.Ethernet || remote.Number >= 1<<24 || remote.Packet >= 1<<24 ||
		remote.MTUBytes < 256 || remote.MTUBytes > 4096 || !remote.GID.IsValid():
		return fmt.Errorf("an endpoint like %+v cannot be reached", remote)
	case path.Retries < 1 || path.Retries > 6 || path.Timeout > 31:
		return fmt.Errorf("there is no path like %+v", path)
	}
	remote.GID = netip.AddrFrom16(remote.GID.As16())
	q.remote, q.path, q.state = remote, path, ready
	n.counts.Connected++
	n.traceLocked("%s: queue pair %#x to %#x", q.d.port.m.name, q.local.Number, remote.Number)
	n.running.Go(q.run)
	return nil
}

func (q *queuePair) PostReceives(k int) error {
	n := q.net()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case q.destroyed:
		return fabric.ErrClosed
	case k < 0 || q.receives+q.heldReceives+k > q.o.Receives:
		return fmt.Errorf("%w: %d receives, and room for %d", fabric.ErrFull, k, q.o.Receives-q.receives-q.heldReceives)
	case q.d.port.m.stopped:
		q.heldReceives += k
		return nil
	}
	q.receives += k
	if q.state == failed {
		q.flushReceivesLocked(fabric.Flushed, codeFlushed)
	}
	return nil
}

func (q *queuePair) PostWrites(id uint64, writes []fabric.Write) error {
	n := q.net()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case q.destroyed:
		return fabric.ErrClosed
	case q.state == fresh:
		return errors.New("the queue pair is not connected")
	case len(writes) == 0:
		return errors.New("an empty list")
	case q.posted+len(writes) > q.o.Sends:
		return fmt.Errorf("%w: %d writes, and room for %d", fabric.ErrFull, len(writes), q.o.Sends-q.posted)
	}
	l := &list{id: id, writes: slices.Clone(writes), held: q.d.port.m.stopped}
	for i := range l.writes {
		w := &l.writes[i]
		if w.Inline == nil {
			continue
		}
		if len(w.Inline) > q.d.port.info.Limits.InlineBytesMax {
			return fmt.Errorf("%w: %d bytes inline", fabric.ErrUnsupported, len(w.Inline))
		}
		w.Inline, w.Bytes = slices.Clone(w.Inline), uint32(len(w.Inline))
	}
	q.posted += len(writes)
	if q.state == failed {
		q.flushLocked(l)
		return nil
	}
	q.lists = append(q.lists, l)
	q.wake()
	return nil
}

func (q *queuePair) Receives() fabric.Queue { return q.received }

func (q *queuePair) Sends() fabric.Queue { return q.sent }

// takeTime waits as long as Destroy takes, in which writes still land.
func (q *queuePair) takeTime() {
	n := q.net()
	most := n.c.DestroyMax
	if most == 0 {
		return
	}
	n.mu.Lock()
	d := time.Duration(q.rng.Int64N(int64(most)))
	n.mu.Unlock()
	time.Sleep(d)
}

// errDestroy is a Destroy that is none.
var errDestroy = errors.New("the device did not destroy the queue pair")

func (q *queuePair) Destroy() error {
	n := q.net()
	q.takeTime()
	n.mu.Lock()
	if q.d.port.m.destroyFails && !q.destroyed {
		n.mu.Unlock()
		return errDestroy
	}
	n.counts.Destroyed++
	n.traceLocked("%s: queue pair %#x is destroyed", q.d.port.m.name, q.local.Number)
	q.endLocked()
	n.mu.Unlock()
	for _, c := range []*queue{q.received, q.sent} { // Waits under way return first
		c.left()
	}
	return nil
}

// endLocked ends the queue pair: nothing lands through it, and none of its sources is read,
// from now on.
func (q *queuePair) endLocked() {
	if q.destroyed {
		return
	}
	q.destroyed = true
	close(q.gone)
	q.stopLocked()
	if q.d.port.queues[q.local.Number] == q {
		delete(q.d.port.queues, q.local.Number)
	}
	q.d.queues--
	q.wake()
}

// stopLocked ends the sending; what is on its way stays so.
func (q *queuePair) stopLocked() {
	q.lists, q.sentOf, q.write, q.offset, q.acks = nil, 0, 0, 0, nil
}

func (q *queuePair) wake() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// failLocked puts the queue pair in error: the first list that has not completed is told why.
func (q *queuePair) failLocked(why fabric.Result, code int) {
	if q.destroyed || q.state == failed {
		return
	}
	n := q.net()
	n.counts.Failed++
	n.traceLocked("%s: queue pair %#x fails: %v", q.d.port.m.name, q.local.Number, why)
	q.state = failed
	lists := q.lists
	q.stopLocked()
	for i, l := range lists {
		if i == 0 {
			q.sent.addLocked(fabric.Completion{ID: l.id, Result: why, Code: code}, len(l.writes))
		} else if q.rng.IntN(2) == 0 { // they may not be told one by one
			q.flushLocked(l)
		}
	}
	q.wake()
}

// flushLocked tells of a list that was posted in vain.
func (q *queuePair) flushLocked(l *list) {
	q.sent.addLocked(fabric.Completion{ID: l.id, Result: fabric.Flushed, Code: codeFlushed}, len(l.writes))
}

// flushReceivesLocked tells of receives that nothing takes any more: of one, or of all.
func (q *queuePair) flushReceivesLocked(first fabric.Result, code int) {
	if q.receives == 0 {
		return
	}
	q.received.addLocked(fabric.Completion{Result: first, Code: code}, 0)
	if q.rng.IntN(2) == 0 {
		for range min(q.receives-1, 64) {
			q.received.addLocked(fabric.Completion{Result: fabric.Flushed, Code: codeFlushed}, 0)
		}
	}
	q.receives = 0
}
