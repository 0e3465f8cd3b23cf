package device

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// reap is the ring's goroutine: it ends after close.
func (r *ring) reap() {
	for {
		n := r.k.Reap(r.cqes[:])
		r.settle(r.cqes[:n])
		if n == len(r.cqes) {
			continue
		}
		r.mu.Lock()
		closing := r.closing
		r.mu.Unlock()
		if closing {
			return
		}
		if err := r.k.Wait(); err != nil {
			panic("device: the event of a ring cannot be awaited: " + err.Error()) // it is open until the reaper ends
		}
		r.wakeups.Add(1)
	}
}

// settle takes completions in, keeps the kernel busy, and calls Done last.
func (r *ring) settle(cqes []iouring.CQE) {
	now := time.Now()
	r.ended = r.ended[:0]
	var others fifo
	r.mu.Lock()
	for i := range cqes {
		fl := r.flightOf(cqes[i].User)
		switch r.outcome(fl, int(cqes[i].Result)) {
		case whole:
			fl.op.DoneAt = now
			file := fl.file
			r.ended = append(r.ended, ending{r.landLocked(fl), file})
		case partial:
			r.again = append(r.again, fl)
		case refused:
			others.push(r.landLocked(fl))
		}
	}
	r.host.toWorkers(&others)
	r.enterLocked()
	r.mu.Unlock()
	if len(r.ended) > 0 {
		r.host.endedOnRing(r.ended)
		clear(r.ended)
	}
}

// flightOf finds a completion's flight. One that belongs to no op means that
// memory was written which is somebody else's by now.
func (r *ring) flightOf(user uint64) *flight {
	if user >= uint64(len(r.flights)) || r.flights[user].op == nil {
		panic(fmt.Sprintf("device: completion of an unknown request %#x", user))
	}
	return &r.flights[user]
}

// outcome says what one completion means for its op.
type outcome int

const (
	whole   outcome = iota // the op has its result
	partial                // the rest must be asked for
	refused                // a worker must do it, from the start
)

// outcome takes the result of fl's request: a count of bytes, or a negative
// errno.
func (r *ring) outcome(fl *flight, result int) outcome {
	op := fl.op
	switch errno := syscall.Errno(max(-result, 0)); {
	case errno == syscall.EINTR || errno == syscall.EAGAIN || errno == syscall.ECANCELED:
		// Canceled: the thread that had submitted it ended before the kernel's
		// own worker got to it.
		return refused
	case errno != 0:
		op.N, op.Err = fl.n, pathError(ringCall(op.Kind), fl.name(), errno)
		return whole
	case r.nop:
		op.N = op.bytes()
		return whole
	case op.Kind != Read && op.Kind != Write:
		return whole
	}
	fl.n += result
	fl.at = fl.at.advance(result)
	op.N = fl.n
	switch {
	case result == 0 && op.Kind == Read:
		op.Err = io.ErrUnexpectedEOF
	case result == 0:
		op.Err = pathError(ringCall(op.Kind), fl.name(), io.ErrShortWrite)
	case result < fl.asked && result%fl.file.d.facts.OffsetAlignBytes != 0:
		op.Err = oddCount(op.Kind, ringCall(op.Kind), fl.file, op.Offset+int64(fl.n))
	case fl.at.atEnd():
		return whole
	default:
		return partial
	}
	return whole
}

// name is the file's, for errors.
func (fl *flight) name() string {
	if fl.file == nil {
		return ""
	}
	return fl.file.name
}

// ringCall names the request of a kind, for errors.
func ringCall(kind Kind) string {
	return [...]string{Read: "io_uring read", Write: "io_uring write", Sync: "io_uring fsync", Punch: "io_uring fallocate"}[kind]
}
