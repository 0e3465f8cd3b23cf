package sim

import (
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// list is one call of PostWrites.
type list struct {
	id     uint64
	writes []fabric.Write
	held   bool // posted by a stopped process
}

// burst is some packets on their way.
type burst struct {
	l       *list
	write   int // of the list
	offset  uint32
	data    []byte
	last    bool // of its write
	arrives time.Time
}

// settling is a burst that the receiver has acknowledged, and that is not in its memory yet.
type settling struct {
	at     time.Time
	to     *queuePair
	region *region
	target []byte
	data   []byte
}

// ack is a word of the receiver on its way.
type ack struct {
	arrives time.Time
	result  fabric.Result // OK: the first list has landed
	code    int
	again   bool // the receiver has to say it once more
}

// sending is what a queue pair has under way.
type sending struct {
	lists   []*list // not acknowledged
	sentOf  int     // of those are sent whole
	write   int     // of the next one, to be sent next
	offset  uint32  // in that write
	wire    []burst
	paced   time.Time // the last arrival
	acks    []ack
	refused bool      // the receiver takes nothing more; the word of it is in acks
	tries   int       // since something was acknowledged
	retry   time.Time // not before then
	fault   time.Time // then the own port has been down for too long
	silence time.Time // then a frozen receiver has been silent for too long

	settling []settling
}

// run carries what the queue pair sends, until it is destroyed and nothing is on its way.
func (q *queuePair) run() {
	n := q.net()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		n.mu.Lock()
		next := q.stepsLocked(time.Now())
		changed, over := n.changed, q.destroyed && len(q.wire)+len(q.settling) == 0
		n.mu.Unlock()
		if over {
			return
		}
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-q.kick:
		case <-changed:
		case <-due:
		case <-n.ending:
			return
		}
	}
}

// stepsLocked does all that is due, and says when there is more: zero if nothing is to come
// by itself.
func (q *queuePair) stepsLocked(now time.Time) (next time.Time) {
	for did := true; did; {
		next, did = time.Time{}, false
		for _, step := range [...]func(time.Time) (time.Time, bool){q.landLocked, q.settleLocked, q.ackLocked, q.transmitLocked} {
			at, done := step(now)
			did = did || done
			if next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
		}
	}
	return next
}

// timeout is how long one try waits for the receiver's word.
func (q *queuePair) timeout() time.Duration { return 4096 * time.Nanosecond << q.path.Timeout }

// patient reports whether there is a retry left.
func (q *queuePair) patient() bool { return q.tries <= int(q.path.Retries) }

// transmitLocked sends one burst, if there is one and it may be sent.
func (q *queuePair) transmitLocked(now time.Time) (next time.Time, did bool) {
	p := q.d.port
	switch {
	case q.state != ready || q.destroyed || q.refused || p.m.frozen || q.sentOf == len(q.lists):
	case q.lists[q.sentOf].held && p.m.stopped:
	case !p.info.Active:
		return q.portDownLocked(now)
	case q.retry.After(now):
		return q.retry, false
	case !q.patient():
		q.failLocked(fabric.NoAnswer, codeNoAnswer)
		return time.Time{}, true
	case p.busy.After(now):
		return p.busy, false
	default:
		q.fault = time.Time{}
		q.sendLocked(now)
		return time.Time{}, true
	}
	return time.Time{}, false
}

// portDownLocked gives a port that is down a while to come up.
func (q *queuePair) portDownLocked(now time.Time) (next time.Time, did bool) {
	if q.fault.IsZero() {
		q.fault = now.Add(50*time.Millisecond + time.Duration(q.rng.Int64N(int64(100*time.Millisecond))))
	}
	if q.fault.After(now) {
		return q.fault, false
	}
	q.failLocked(fabric.LocalFault, codeOperation)
	return time.Time{}, true
}

// sendLocked reads one burst from its source and puts it on the wire.
func (q *queuePair) sendLocked(now time.Time) {
	n, p, l := q.net(), q.d.port, q.lists[q.sentOf]
	w := &l.writes[q.write]
	source, code := q.sourceLocked(w)
	switch {
	case code != 0:
		q.failLocked(fabric.LocalFault, code)
		return
	case n.breaks > 0 && q.rng.Float64() < n.breaks:
		q.failLocked(fabric.NoAnswer, codeNoAnswer)
		return
	}
	packets := 1 + q.rng.IntN(n.c.BurstPackets)
	end := min(w.Bytes, q.offset+uint32(packets*min(q.local.MTUBytes, q.remote.MTUBytes)))
	b := burst{l: l, write: q.write, offset: q.offset, data: slices.Clone(source[q.offset:end]), last: end == w.Bytes}
	if n.c.BytesPerSecond > 0 {
		p.busy = now.Add(time.Duration(float64(len(b.data)) / float64(n.c.BytesPerSecond) * float64(time.Second)))
	}
	if b.arrives = now.Add(n.delay(q.rng)); b.arrives.Before(p.busy) {
		b.arrives = p.busy
	}
	if b.arrives.Before(q.paced) {
		b.arrives = q.paced
	}
	q.paced = b.arrives
	q.wire = append(q.wire, b)
	if q.offset = end; b.last {
		q.write, q.offset = q.write+1, 0
	}
	if q.write == len(l.writes) {
		q.sentOf, q.write = q.sentOf+1, 0
	}
}

// sourceLocked is what a write sends, or the code of its fault.
func (q *queuePair) sourceLocked(w *fabric.Write) (source []byte, code int) {
	switch {
	case w.Inline != nil:
		return w.Inline, 0
	case w.Bytes == 0:
		return nil, 0
	case int64(w.Bytes) > int64(q.d.port.info.Limits.MessageBytesMax):
		return nil, codeLength
	}
	if r := q.d.local[w.SourceKey]; r != nil {
		if mem, inside := r.at(w.Source, w.Bytes); inside {
			return mem, 0
		}
	}
	return nil, codeProtect
}

// rewindLocked has a burst, and all behind it, sent again after a timeout.
func (q *queuePair) rewindLocked(b *burst, now time.Time) {
	q.sentOf, q.write, q.offset = slices.Index(q.lists, b.l), b.write, b.offset
	q.wire = nil
	q.tries++
	q.retry = now.Add(q.timeout())
}
