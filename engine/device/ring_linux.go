package device

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// enterRounds bounds how often one Submit enters the kernel for requests that
// other goroutines queued meanwhile; the reaper takes over from there.
const enterRounds = 4

// ringHost is the device that a ring works for.
type ringHost interface {
	// endedOnRing is called by the reaper with ops that have their results.
	endedOnRing(ended []ending)
	// toWorkers takes ops that the ring cannot do. It must not block; the
	// ring's lock is held.
	toWorkers(ops *fifo)
}

// ending is an op with its result, and the file that it was for: the op itself
// may be used again as soon as Done has been called.
type ending struct {
	op   *Op
	file *file
}

// flight is the ring's side of one op in flight. It refers to the op and so to
// all its memory until the completion has come: the kernel's references are
// plain numbers that the collector does not see. (Go does not move what lies on
// the heap. Memory on a stack never gets here, because whatever is reachable
// from an Op handed to an interface method lies on the heap.)
type flight struct {
	user   uint64 // its index; comes back in the completion
	op     *Op
	file   *file
	at     cursor // what is still to be moved
	n      int    // bytes moved so far
	asked  int    // bytes of the request in flight
	pieces []kernelPiece
}

// ring drives one io_uring.
//
// Life of an op: submit queues it; whoever enters next (one goroutine at a time,
// see enterLocked) gives it a flight, and all that found one go to the kernel
// in one system call. The reaper, the ring's only goroutine, is woken through
// the runtime's poller, takes completions, sends the rest of short transfers
// off again together with what was waiting for room, and only then calls Done.
//
// At most depth ops are in the kernel, which is no more than the completion
// queue holds, so that queue cannot overflow.
//
// Lock order: mu comes before the locks of the host.
type ring struct {
	k        *iouring.Ring
	host     ringHost
	depth    int
	bytesMax int     // of one request
	nop      bool    // every op becomes a request that does nothing
	byNumber bool    // files are named by their descriptors, not by a place in a table
	memory   *memory // registered buffers; may be nil

	enters, wakeups atomic.Uint64
	fixed           atomic.Uint64 // requests on registered buffers

	mu      sync.Mutex
	pending turns     // without a flight yet
	late    fifo      // found to be late; the workers say so, since here the lock is held
	again   []*flight // to be sent (again) before those pending
	batch   []*flight // pushed, not yet taken by the kernel; in order
	free    []*flight // as many as may still go into the kernel
	flights []flight
	busy    bool       // a goroutine is in enterLocked
	left    *sync.Cond // told when it has left, while closing; L is mu
	broken  error      // io_uring_enter failed for good: everything goes to the workers
	closing bool

	// The reaper's own.
	cqes   [64]iouring.CQE
	ended  []ending
	reaper sync.WaitGroup
}

// newRing starts the reaper of k, which the ring now owns.
func newRing(k *iouring.Ring, host ringHost, depth int, setup ringSetup) *ring {
	r := newFlights(k, host, depth, setup)
	r.again = make([]*flight, 0, depth)
	r.batch = make([]*flight, 0, depth)
	r.reaper.Go(r.reap)
	return r
}

// newFlights is the part of a ring that has no reaper.
func newFlights(k *iouring.Ring, host ringHost, depth int, setup ringSetup) *ring {
	r := &ring{k: k, host: host, depth: depth, bytesMax: setup.bytesMax, nop: setup.nop, flights: make([]flight, depth)}
	r.left = sync.NewCond(&r.mu)
	for i := range r.flights {
		r.flights[i].user = uint64(i)
		r.free = append(r.free, &r.flights[i])
	}
	return r
}

// close ends the reaper and gives the ring back. No op is in flight any more, but the
// goroutine that submitted the last one may still be on its way out.
func (r *ring) close() {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.wake()
	r.reaper.Wait()
	r.mu.Lock()
	for r.busy {
		r.left.Wait()
	}
	r.mu.Unlock()
	r.k.Close()
}

// wake makes the reaper look at the ring.
func (r *ring) wake() {
	if err := r.k.Wake(); err != nil {
		panic("device: the event of a ring cannot be raised: " + err.Error()) // it has room for 2^64-2
	}
}

// submit takes all of ops.
func (r *ring) submit(ops *fifo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.take(ops)
	r.enterLocked()
}

// enterLocked brings as much as has room into the kernel. It does nothing while
// another goroutine is here: that one looks again after its system call, which
// is how the ops of many goroutines come to share one. mu is released meanwhile.
func (r *ring) enterLocked() {
	if r.busy {
		return
	}
	r.busy = true
	defer r.leaveLocked()
	for round := 0; ; round++ {
		r.fillLocked()
		n := len(r.batch)
		if n == 0 {
			return
		}
		if round == enterRounds {
			r.takeBackLocked()
			r.wake()
			return
		}
		r.mu.Unlock()
		taken, errno := r.k.Enter(n)
		r.enters.Add(1)
		r.mu.Lock()
		r.batch = append(r.batch[:0], r.batch[taken:]...)
		if errno != syscall.EINTR && taken == 0 && r.refusedLocked(errno) {
			return
		}
	}
}

// leaveLocked is the end of enterLocked.
func (r *ring) leaveLocked() {
	if r.busy = false; r.closing {
		r.left.Broadcast()
	}
}

// fillLocked gives flights to waiting ops and pushes their requests.
func (r *ring) fillLocked() {
	if r.broken != nil {
		r.host.toWorkers(&r.pending.first)
		r.host.toWorkers(&r.pending.rest)
	}
	var now time.Time
	defer func() { r.host.toWorkers(&r.late) }()
	for room := r.k.Room(); room > 0; room-- {
		fl := r.nextLocked(&now)
		if fl == nil {
			return
		}
		request := r.request(fl)
		r.k.Push(&request)
		r.batch = append(r.batch, fl)
	}
}

// nextLocked is the next flight to send, nil if there is none or no room. now is
// read once for all. Reads that nobody wants any more go to late.
func (r *ring) nextLocked(now *time.Time) *flight {
	if n := len(r.again); n > 0 {
		fl := r.again[n-1]
		r.again = r.again[:n-1]
		return fl
	}
	if len(r.free) == 0 {
		return nil
	}
	op := r.pending.pop()
	if op != nil && now.IsZero() {
		*now = time.Now()
	}
	for ; op != nil && op.late(*now); op = r.pending.pop() {
		r.late.push(op)
	}
	if op == nil {
		return nil
	}
	fl := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	fl.op, fl.at, fl.n = op, cursor{bufs: op.Bufs}, 0
	fl.file, _ = op.File.(*file)
	op.StartedAt = *now
	return fl
}

// takeBackLocked removes what was pushed and not taken; it waits to be sent.
func (r *ring) takeBackLocked() {
	r.k.TakeBack(len(r.batch))
	for i := len(r.batch) - 1; i >= 0; i-- { // the first of them next
		r.again = append(r.again, r.batch[i])
	}
	r.batch = r.batch[:0]
}

// refusedLocked deals with a call that took nothing and reports whether to stop.
// Short of memory (EAGAIN) or with unfetched completions (EBUSY) the kernel
// wants us to come back later: after the next completion, of which there is one
// if anything is in the kernel. If nothing is, or the call failed in any other
// way, the workers do it: nobody spins, nothing waits for ever.
func (r *ring) refusedLocked(errno syscall.Errno) (stop bool) {
	r.takeBackLocked()
	later := errno == 0 || errno == syscall.EAGAIN || errno == syscall.EBUSY
	inKernel := r.depth - len(r.free) - len(r.again)
	if later && inKernel > 0 {
		return true
	}
	if !later {
		r.broken = errno
	}
	var ops fifo
	for _, fl := range r.again {
		ops.push(r.landLocked(fl))
	}
	r.again = r.again[:0]
	r.host.toWorkers(&ops)
	return false
}

// landLocked ends a flight, makes it free, and returns its op.
func (r *ring) landLocked(fl *flight) *Op {
	r.free = append(r.free, fl)
	return r.land(fl)
}

// land ends a flight and returns its op.
func (r *ring) land(fl *flight) *Op {
	op := fl.op
	clear(fl.pieces)
	fl.op, fl.file, fl.at = nil, nil, cursor{}
	return op
}
