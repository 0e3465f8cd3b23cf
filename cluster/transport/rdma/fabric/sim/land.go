package sim

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// landLocked brings the first burst of the wire in, if it has arrived.
func (q *queuePair) landLocked(now time.Time) (next time.Time, did bool) {
	if len(q.wire) == 0 {
		return time.Time{}, false
	}
	if b := &q.wire[0]; b.arrives.After(now) {
		return b.arrives, false
	}
	to := q.net().ports[q.remote.GID]
	if to != nil && to.m.frozen && !to.m.dead {
		return q.silentLocked(now)
	}
	q.silence = time.Time{}
	b := q.wire[0]
	q.wire = q.wire[1:]
	q.arriveLocked(&b, to, now)
	return time.Time{}, true
}

// silentLocked waits for a frozen receiver: what is on the wire lands when it thaws, and
// the sender loses patience.
func (q *queuePair) silentLocked(now time.Time) (next time.Time, did bool) {
	if q.state != ready || q.destroyed || q.d.port.m.frozen {
		return time.Time{}, false
	}
	if q.silence.IsZero() {
		q.silence = now.Add(q.timeout() * time.Duration(q.path.Retries+1))
	}
	if q.silence.After(now) {
		return q.silence, false
	}
	q.failLocked(fabric.NoAnswer, codeNoAnswer)
	return time.Time{}, true
}

// peerLocked is the other end, if packets of this one reach it now.
func (q *queuePair) peerLocked(to *port) *queuePair {
	if to == nil || !to.info.Active || q.net().cut[[2]string{q.d.port.m.name, to.m.name}] {
		return nil
	}
	p := to.queues[q.remote.Number]
	if p == nil || p.state != ready || p.remote.Number != q.local.Number || p.remote.GID != q.local.GID || p.remote.Packet != q.local.Packet {
		return nil
	}
	return p
}

// backLocked reports whether a word of the receiver arrives.
func (q *queuePair) backLocked() bool {
	from := q.net().ports[q.remote.GID]
	return from != nil && from.info.Active && q.d.port.info.Active && !q.net().cut[[2]string{from.m.name, q.d.port.m.name}]
}

// arriveLocked has a burst take effect at the receiver, if it takes it.
func (q *queuePair) arriveLocked(b *burst, to *port, now time.Time) {
	n, sends := q.net(), q.state == ready && !q.destroyed
	p := q.peerLocked(to)
	if p == nil {
		n.counts.Lost++
		if sends {
			q.rewindLocked(b, now)
		}
		return
	}
	w := &b.l.writes[b.write]
	if result, code := p.takeLocked(q, w, b, now); result != fabric.OK {
		n.counts.Refused++
		n.traceLocked("%s: queue pair %#x refuses: %v", to.m.name, p.local.Number, result)
		q.refused, q.wire = true, nil
		q.settleAllLocked(now) // what came before is there
		if result != fabric.NoReceive {
			p.failLocked(fabric.Flushed, codeFlushed)
			p.flushReceivesLocked(result, code)
		}
		if sends {
			q.acks = append(q.acks, ack{arrives: now.Add(n.delay(q.rng)), result: result, code: code})
		}
		return
	}
	n.counts.Bursts++
	n.counts.Bytes += uint64(len(b.data))
	if !sends {
		n.counts.Orphans++
		return
	}
	if q.backLocked() {
		q.tries = 0
	}
	if b.last && b.write == len(b.l.writes)-1 {
		q.acks = append(q.acks, ack{arrives: now.Add(n.delay(q.rng))})
	}
}

// takeLocked is what a receiver does with a burst of a write of q.
func (p *queuePair) takeLocked(q *queuePair, w *fabric.Write, b *burst, now time.Time) (fabric.Result, int) {
	if !p.o.RemoteWrite {
		return fabric.RemoteMalformed, codeMalformed
	}
	var target []byte
	var r *region
	if w.Bytes > 0 {
		r = p.d.remote[w.TargetKey]
		if r == nil || r.rights&fabric.RemoteWrite == 0 {
			return fabric.RemoteDenied, codeDenied
		}
		inside := false
		if target, inside = r.at(w.Target, w.Bytes); !inside {
			return fabric.RemoteDenied, codeDenied
		}
	}
	notify := w.Notify && b.last
	if notify && p.receives == 0 {
		return fabric.NoReceive, codeNoReceive
	}
	if len(b.data) > 0 {
		at := now
		if most := p.net().c.SettleMax; most > 0 {
			at = at.Add(time.Duration(q.rng.Int64N(int64(most))))
		}
		q.settling = append(q.settling, settling{at, p, r, target[b.offset:], b.data})
		q.settleLocked(now)
	}
	if notify {
		q.settleAllLocked(now)
		p.receives--
		p.received.addLocked(fabric.Completion{Immediate: w.Immediate}, 0)
		p.net().counts.Immediates++
	}
	return fabric.OK, 0
}

// settleLocked brings what has landed into memory, in order. What a fence has passed does not
// come.
func (q *queuePair) settleLocked(now time.Time) (next time.Time, did bool) {
	for ; len(q.settling) > 0; q.settling = q.settling[1:] {
		s := &q.settling[0]
		if s.at.After(now) {
			return s.at, did
		}
		if !s.to.destroyed && !s.region.gone {
			copy(s.target, s.data)
		}
		did = true
	}
	return time.Time{}, did
}

func (q *queuePair) settleAllLocked(now time.Time) {
	for i := range q.settling {
		q.settling[i].at = now
	}
	q.settleLocked(now)
}

// ackLocked takes the first word of the receiver, if it has arrived.
func (q *queuePair) ackLocked(now time.Time) (next time.Time, did bool) {
	switch {
	case len(q.acks) == 0 || q.d.port.m.frozen:
		return time.Time{}, false
	case q.acks[0].arrives.After(now):
		return q.acks[0].arrives, false
	case !q.patient():
		q.failLocked(fabric.NoAnswer, codeNoAnswer)
		return time.Time{}, true
	}
	a := &q.acks[0]
	if !q.backLocked() || a.again && q.peerLocked(q.net().ports[q.remote.GID]) == nil {
		q.net().counts.Lost++
		q.tries++
		a.arrives, a.again = now.Add(q.timeout()), true
		return a.arrives, false
	}
	if a.result != fabric.OK {
		q.failLocked(a.result, a.code)
		return time.Time{}, true
	}
	l := q.lists[0]
	q.lists, q.sentOf = q.lists[1:], q.sentOf-1
	q.acks = q.acks[1:]
	q.tries = 0
	q.sent.addLocked(fabric.Completion{ID: l.id}, len(l.writes))
	return time.Time{}, true
}
