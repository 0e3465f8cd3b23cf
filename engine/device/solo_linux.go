package device

import (
	"syscall"
	"time"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// Waiting is implemented by devices on which the goroutine that waits for a
// transfer can see it through itself, which saves handing it over and being
// woken. Ask for it with a type assertion.
type Waiting interface {
	// SubmitWaiting is Submit for one op, by a caller that has nothing else to do
	// until the op has ended or the time until has passed (zero: no bound). Done
	// may be called on the calling goroutine, and the call may last that long. It
	// may return earlier, with the op in flight: only Done tells.
	SubmitWaiting(op *Op, until time.Time)
}

const (
	// soloBytesMax is up to which size a read goes to the solo ring.
	soloBytesMax = 4 << 20
	// soloPoll is the pause between two looks at a completion that the kernel
	// refuses to wait for.
	soloPoll = time.Millisecond
)

// newSolo makes the ring that serves a lone read: one request, no reaper, no
// table of files. Whoever wants the block submits and waits in one system call,
// with the deadline as its limit: as quick as pread, and not held by a drive
// that does not answer. Past the deadline a goroutine of the device waits on.
// There is one such ring, since a thread each is what many reads at once must
// not cost. Only reads go there, so the directory's lock, which keeps writes of
// a killed process from the next one's files, need not be in it.
//
// Nil, and reads go the usual ways, where the kernel has no wait with a limit
// (before 5.11) or refuses another ring.
func newSolo(d *psync, setup ringSetup) *ring {
	if d.options.Engine != EngineAuto && !d.medium || setup.nop {
		return nil
	}
	k, err := iouring.Open(iouring.Config{Entries: 1, Flags: ringFlags, Quiet: true, Calls: setup.calls})
	if err != nil {
		return nil
	}
	if !k.CanWait() {
		k.Close()
		return nil
	}
	r := newFlights(k, d, 1, setup)
	r.byNumber = true
	return r
}

// SubmitWaiting implements Waiting.
func (d *psync) SubmitWaiting(op *Op, until time.Time) {
	d.checkCaller(op)
	if !d.takeSolo(op) {
		d.Submit([]*Op{op})
		return
	}
	op.N, op.Err = 0, nil
	op.StartedAt, op.DoneAt = time.Now(), time.Time{}
	r := d.solo
	fl := &r.flights[0]
	fl.op, fl.file, fl.at, fl.n = op, op.File.(*file), cursor{bufs: op.Bufs}, 0
	if !d.seeThrough(r, fl, until, true) {
		go d.seeThrough(r, fl, time.Time{}, false)
	}
}

// takeSolo takes the solo ring and a place in the queue, if op suits it and
// nothing else is in flight.
func (d *psync) takeSolo(op *Op) bool {
	if d.solo == nil || op.Kind != Read || len(op.Bufs) == 0 || len(op.Bufs) > iovMax {
		return false
	}
	if n := op.bytes(); n == 0 || n > soloBytesMax || !d.argumentsGood(op) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.occupied > 0 || d.solo.broken != nil || d.admitLocked(op.File.(*file)) != nil {
		return false
	}
	d.workers.Add(1) // until seeThrough has answered: Close waits
	return true
}

// seeThrough waits for the end of the solo ring's flight and answers, and reports
// whether it came before the time until; send says that the request is still to
// be made.
func (d *psync) seeThrough(r *ring, fl *flight, until time.Time, send bool) bool {
	for {
		cqe, ended := r.exchange(fl, until, send)
		if !ended {
			return false
		}
		switch r.outcome(r.flightOf(cqe.User), int(cqe.Result)) {
		case whole:
			fl.op.DoneAt = time.Now()
			d.endSolo(r, fl)
			d.workers.Done()
			return true
		case refused:
			var ops fifo
			ops.push(r.land(fl))
			d.toWorkers(&ops) // it keeps its place in the queue
			d.workers.Done()
			return true
		}
		send = true
	}
}

// exchange makes the request of fl, if it is still to be made, and waits for its
// completion until the time until. What the kernel does not take at all counts
// as refused, and is not tried again if it never will be taken.
func (r *ring) exchange(fl *flight, until time.Time, send bool) (cqe iouring.CQE, ended bool) {
	pushed := 0
	if send {
		request := r.request(fl)
		r.k.Push(&request)
		pushed = 1
	}
	for {
		limit := time.Duration(-1)
		if !until.IsZero() {
			limit = max(time.Until(until), 0)
		}
		taken, errno := r.k.EnterWait(pushed, limit)
		r.enters.Add(1)
		pushed -= taken
		var cqes [1]iouring.CQE
		switch {
		case r.k.Reap(cqes[:]) == 1:
			return cqes[0], true
		case errno == syscall.EINTR:
		case pushed > 0:
			r.k.TakeBack(pushed)
			if errno != 0 && errno != syscall.EAGAIN && errno != syscall.EBUSY && errno != syscall.ENOMEM {
				r.broken = errno
			}
			return iouring.CQE{User: fl.user, Result: -int32(syscall.EAGAIN)}, true
		case !until.IsZero() && time.Until(until) <= 0:
			return cqe, false
		case errno != 0 && errno != syscall.ETIME:
			time.Sleep(soloPoll)
		}
	}
}

// endSolo frees the ring and answers.
func (d *psync) endSolo(r *ring, fl *flight) {
	f := fl.file
	op := r.land(fl)
	d.mu.Lock()
	d.leaveLocked(1)
	d.mu.Unlock()
	op.Done(op) // the op is the caller's again
	f.letGo()
}
