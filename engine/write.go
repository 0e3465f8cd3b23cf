package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/fault"
	"github.com/spillway-kv/spillway/engine/frame"
	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
	"github.com/spillway-kv/spillway/wal"
)

// writeOp writes one block of one put. Its slot is claimed before, and the
// block published after the transfer has ended: by the putting goroutine, or,
// if that has answered Late, by the completion.
type writeOp struct {
	op device.Op
	transfer
	s        *Store
	ns       *Namespace
	index    int
	id       table.ID
	ref      table.Ref
	place    Place
	segment  *segment
	record   putRecord
	bufs     [][]byte
	one      [1][]byte // backs bufs for a frame, or for a source in one piece
	frame    *frame.Frame
	answer   atomic.Uint32 // answerPending, answerGiven by the completion, answerLate by the put
	shared   bool          // PutOptions.Shared
	landed   bool          // the transfer is no longer counted; guarded by Store.mu
	ended    chan<- struct{}
	released func(int)
}

// prepareLocked fills in what is known once the slot is claimed.
func (w *writeOp) prepareLocked(incarnation uint32, it *PutItem) {
	s := w.s
	w.place = Place(s.table.At(w.ref).Place())
	w.segment = s.segments[w.place.Segment()]
	if w.bufs = it.Src; w.frame == nil {
		// A copy: after Late the list is the caller's again, only the memory is not.
		w.bufs = append(w.one[:0], it.Src...)
	}
	w.record = putRecord{namespace: w.ns.number, incarnation: incarnation, id: w.id, place: w.place,
		depth: it.Depth, importance: it.Importance, group: it.Key.Group,
		key: append([]byte(nil), it.Key.Bytes...)}
	w.op = device.Op{Kind: device.Write, File: w.segment.file,
		Offset: w.segment.header.slotOffset(w.place.Slot()), Done: func(*device.Op) { w.complete() }}
	s.startLocked(&w.transfer, time.Now())
	s.calls.Add(1)
}

// submit fingerprints the blocks, copies the unaligned ones into their frames,
// and hands everything to the device in one call.
func (b *putBatch) submit(chunk []*writeOp, ended chan<- struct{}) {
	ops := make([]*device.Op, 0, len(chunk))
	for _, w := range chunk {
		w.ended = ended
		if err := fault.Guard(w.fingerprint); err != nil {
			w.op.Err = err
			w.complete()
			continue
		}
		ops = append(ops, &w.op)
	}
	if planted.Active(planted.AckBeforeWrite) {
		for _, op := range ops {
			op.Done = func(*device.Op) {}
		}
		b.publish(chunk)
	}
	b.s.dev.Submit(ops)
}

// fingerprint takes the checksum of the block and makes its transfer ready.
func (w *writeOp) fingerprint() {
	block := w.bufs
	if w.frame != nil {
		w.fillFrame()
		block = [][]byte{w.one[0][:w.ns.descriptor.BlockBytes]}
	}
	w.record.checksum = checksum(w.id, block)
	w.op.Bufs = w.bufs
}

// fillFrame gathers the pieces and zeroes the rest of the last sector.
func (w *writeOp) fillFrame() {
	w.one[0] = w.frame.Bytes()
	n := 0
	for _, p := range w.bufs {
		n += copy(w.one[0][n:], p)
	}
	clear(w.one[0][n:])
	w.bufs = w.one[:]
}

// complete is called once, on a goroutine of the device.
func (w *writeOp) complete() {
	w.s.mu.Lock()
	w.landLocked()
	w.s.mu.Unlock()
	if w.answer.CompareAndSwap(answerPending, answerGiven) {
		w.ended <- struct{}{} // buffered for the whole chunk
		return
	}
	w.s.mu.Lock()
	if _, err := w.publishLocked(); err == nil {
		w.s.counters.Stored++
		w.s.counters.WrittenBytes += uint64(w.ns.descriptor.BlockBytes)
	} else if errors.Is(err, wal.ErrFull) {
		w.unclaimLocked()
	}
	w.s.wakeLocked()
	w.s.mu.Unlock()
	w.released(w.index)
	w.end()
}

// landLocked counts the transfer out, which has ended.
func (w *writeOp) landLocked() {
	if !w.landed {
		w.landed = true
		w.s.endLocked(&w.transfer, &w.op)
	}
}

// publishLocked logs and publishes a write that has ended well, and takes back
// the claim of one that has not. It returns the position of the put. With
// wal.ErrFull the claim stands: the caller tries again or takes it back.
func (w *writeOp) publishLocked() (uint64, error) {
	s := w.s
	w.landLocked()
	rec := w.claimedLocked()
	if rec == nil {
		return 0, ErrGone // the segment went while it was written
	}
	if w.op.Err != nil {
		w.unclaimLocked()
		if !device.NotTheDrive(w.op.Err) {
			s.counters.WriteErrors++
			s.quarantineLocked(w.place)
			s.log.Warn("a block could not be written; its slot is not used again", "place", w.place, "cause", w.op.Err)
		}
		return 0, fmt.Errorf("write %v: %w", w.place, w.op.Err)
	}
	if rec.Doomed() {
		w.unclaimLocked()
		return 0, fmt.Errorf("%w: deleted while it was written", ErrGone)
	}
	err, position := w.ns.payDropLocked(), uint64(0)
	if err == nil {
		position, err = s.appendLocked(w.record.append(make([]byte, 0, putFixedBytes+len(w.record.key))), false)
	}
	if err != nil {
		if !errors.Is(err, wal.ErrFull) {
			w.unclaimLocked()
		}
		return 0, err
	}
	rec.SetPosition(position)
	rec.Checksum = w.record.checksum
	rec.SetState(statePresent)
	rec.SetShared(w.shared)
	w.segment.writing--
	w.ns.unparkLocked(w.ref, rec)
	w.segment.dirty = true
	w.segment.directory.changes++
	if w.segment.free == 0 && !w.segment.directory.full {
		s.dirs.kick()
	}
	s.recent.add(position, w.record.group, w.record.key)
	return position, nil
}

// claimedLocked is the record of the claim, nil if its segment went meanwhile.
func (w *writeOp) claimedLocked() *table.Record {
	rec := w.s.table.Peek(w.ref)
	if rec == nil || rec.State() != stateWriting || rec.ID != w.id || Place(rec.Place()) != w.place {
		return nil
	}
	return rec
}

func (w *writeOp) unclaimIfClaimedLocked() {
	if w.claimedLocked() != nil {
		w.unclaimLocked()
	}
}

func (w *writeOp) unclaimLocked() {
	w.ns.policy.Forget(evict.Handle(w.ref))
	w.ns.dropBlockLocked(w.ref)
}

// end gives back what the write held, after its answer.
func (w *writeOp) end() {
	if w.frame != nil {
		w.frame.Release()
		w.frame = nil
		w.s.mu.Lock()
		w.s.wakeWaitingLocked()
		w.s.mu.Unlock()
	}
	w.s.calls.Done()
}
