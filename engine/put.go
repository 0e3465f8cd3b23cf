package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
)

// putChunkMax bounds the blocks of a batch that are on their way to the drive
// before the first of them is published.
const putChunkMax = 256

// putChunkBytes bounds their bytes too, but for a single block: they are hashed
// before the first of them goes.
const putChunkBytes = 256 << 20

// Put stores blocks, given root first. They enter the eviction order tail
// first: for every item from the last to the first, a present block is touched
// (Present) and an absent one inserted (Stored), evicting where there is no
// room. Every item is answered when Put returns. The error is for the call as
// a whole; then nothing was stored.
func (ns *Namespace) Put(items []PutItem, o PutOptions) error {
	if (!o.Deadline.IsZero() || o.Done != nil) && o.Released == nil {
		return fmt.Errorf("%w: a put with a deadline or Done needs Released", ErrConfig)
	}
	for i := range items {
		if err := errors.Join(checkKey(items[i].Key), ns.checkPieces(items[i].Src)); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	if err := errors.Join(checkNeighbour("After", o.After), checkNeighbour("Before", o.Before)); err != nil {
		return err
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	b := &putBatch{s: s, ns: ns, items: items, opts: o}
	a := ns.byKey(len(items), func(i int) Key { return items[i].Key })
	if o.Incarnation != 0 {
		a.incarnation = o.Incarnation // under another one no claim is made
	}
	b.ids, _ = a.all()
	b.incarnation = a.incarnation
	for i := range items {
		items[i].Status, items[i].Err, items[i].StartedAt = Unanswered, nil, time.Time{}
	}
	b.after, b.before = b.neighbour(o.After), b.neighbour(o.Before)
	b.order()
	b.run()
	b.count()
	return nil
}

// putBatch is one Put. It belongs to the caller's goroutine; what completions
// share with it is in the writeOps.
type putBatch struct {
	s           *Store
	ns          *Namespace
	items       []PutItem
	opts        PutOptions
	ids         []table.ID
	after       table.ID // of PutOptions.After; zero: none given
	before      table.ID // of PutOptions.Before; zero: none given
	incarnation uint32
	todo        []int           // items without an answer, tail first
	behind      []int           // by item: the one that follows it in its chain, or -1; nil: the next one
	late        <-chan struct{} // closes at the deadline
	newest      uint64          // highest position whose sync a durable put waits for
	again       bool            // claim has more to look at, after others had their turn
}

// checkNeighbour checks a key of PutOptions that may be empty.
func checkNeighbour(name string, k Key) error {
	if len(k.Bytes) > KeyMaxBytes {
		return fmt.Errorf("%s: %w, not %d", name, ErrKey, len(k.Bytes))
	}
	return nil
}

// neighbour is the ID of a block next to the items in their chain, zero if k is none.
func (b *putBatch) neighbour(k Key) (id table.ID) {
	if len(k.Bytes) > 0 {
		id, _ = blockID(&b.ns.nsID, uint64(b.incarnation), k, nil)
	}
	return id
}

func (b *putBatch) run() {
	late, stop := patience(b.opts.Deadline, b.opts.Done)
	defer stop()
	b.late = late
	b.proveSuspects()
	longest := time.NewTimer(putWaitMax)
	defer longest.Stop()
	for len(b.todo) > 0 {
		chunk, progress := b.claim()
		if len(chunk) > 0 {
			if !b.write(chunk) {
				b.lateAll()
			}
			longest.Reset(putWaitMax)
			continue
		}
		if len(b.todo) == 0 {
			break
		}
		if err := b.hopeless(); err != nil {
			b.dropAll(err)
		} else {
			b.wait(progress, longest.C)
		}
		b.s.stopWaiting()
	}
	if b.opts.Durability == Durable && b.newest > 0 {
		b.awaitDurable()
	}
}

// wait waits for progress, or answers what is left.
func (b *putBatch) wait(progress <-chan struct{}, longest <-chan time.Time) {
	select {
	case <-progress:
	case <-b.late:
		b.lateAll()
	case <-longest:
		b.dropAll(ErrNoSpace)
	}
}

// putWaitMax bounds how long a put without a deadline waits for its next slot.
const putWaitMax = 10 * time.Second

// hopeless says why waiting for a slot makes no sense: the caller does not want
// to, or the namespace has no segment and the file system gives it none.
func (b *putBatch) hopeless() error {
	if b.again {
		return nil
	}
	if b.opts.DropIfBusy {
		return fmt.Errorf("%w at once", ErrNoSpace)
	}
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing { // no segment is made any more
		return ErrClosed
	}
	if len(b.ns.segments) == 0 && time.Now().Before(s.growthStop) && s.segmentToTakeLocked(b.ns) == nil {
		return fmt.Errorf("%w: %w", ErrNoSpace, s.growthError)
	}
	return nil
}

// claim walks the unanswered items, tail first: present ones are answered,
// absent ones get a slot and a transfer. It stops where no slot, frame or
// transfer can be had, and returns the channel to wait on if it got nothing.
func (b *putBatch) claim() (chunk []*writeOp, progress <-chan struct{}) {
	s, ns := b.s, b.ns
	s.mu.Lock()
	defer s.mu.Unlock()
	progress = s.progress
	leasesEnd := s.letGoLocked()
	budget := s.turns.holdMax
	var rest []int
	for n, i := range b.todo {
		w, done := b.claimLocked(i, len(chunk), &budget)
		if w != nil {
			chunk = append(chunk, w)
			continue
		}
		if done {
			continue
		}
		rest = append(rest, i)
		if ref := s.table.Find(b.ids[i]); ref == 0 || ns.incarnation != b.incarnation {
			rest = append(rest, b.todo[n+1:]...) // no room: the order must hold
			break
		}
		// Another put, perhaps one of this batch, is writing this block: its
		// outcome decides; go on with the others.
	}
	b.todo = rest
	if b.again = leasesEnd || budget == 0; b.again {
		progress = passed // at once
	}
	if len(chunk) == 0 && len(rest) > 0 {
		s.waiting++ // until the caller's stopWaiting
	}
	return chunk, progress
}

// claimLocked answers item i, or starts its write, or neither (wait).
func (b *putBatch) claimLocked(i, chunked int, budget *int) (w *writeOp, answered bool) {
	s, ns := b.s, b.ns
	it := &b.items[i]
	switch {
	case ns.dropping || ns.incarnation != b.incarnation:
		it.Status, it.Err = Dropped, ErrGone
		return nil, true
	case s.health != nil:
		it.Status, it.Err = Dropped, fmt.Errorf("%w: %w", ErrReadOnly, s.health)
		return nil, true
	case s.monitor.sick != nil:
		it.Status, it.Err = Dropped, s.monitor.sick
		return nil, true
	}
	access := b.accessLocked(i)
	if ref := s.table.Find(b.ids[i]); ref != 0 {
		rec := s.table.At(ref)
		if rec.State() == stateWriting {
			return nil, false
		}
		access.Depth, access.Importance = rec.Depth, rec.Importance
		ns.touchLocked(ref, rec, access)
		it.Status = Present
		if rec.Position() > s.synced {
			b.newest = max(b.newest, rec.Position())
		}
		return nil, true
	}
	if chunked >= putChunkMax || chunked*ns.descriptor.BlockBytes >= putChunkBytes || s.transfers >= s.transfersMax {
		return nil, false
	}
	w = &writeOp{s: s, ns: ns, index: i, id: b.ids[i], released: b.opts.Released, shared: b.opts.Shared}
	if !s.facts.Aligned(it.Src) {
		bytes := roundUp(int64(ns.descriptor.BlockBytes), int64(s.facts.OffsetAlignBytes))
		if w.frame = s.frames.TryGet(int(bytes)); w.frame == nil {
			return nil, false
		}
	}
	if w.ref = ns.claimLocked(b.ids[i], access, budget); w.ref == 0 {
		if w.frame != nil {
			w.frame.Release()
		}
		return nil, false
	}
	w.prepareLocked(b.incarnation, it)
	return w, false
}

// write moves a chunk to the drive and publishes it. False: the deadline came
// first; what is still in flight publishes itself.
func (b *putBatch) write(chunk []*writeOp) bool {
	ended := make(chan struct{}, len(chunk))
	b.submit(chunk, ended)
	if planted.Active(planted.AckBeforeWrite) {
		return true
	}
	inTime := true
	for range chunk {
		if inTime {
			select {
			case <-ended:
				continue
			case <-b.late:
				inTime = false
				b.late = passed
			}
		}
		break
	}
	var ready []*writeOp
	for _, w := range chunk {
		if !inTime && w.answer.CompareAndSwap(answerPending, answerLate) {
			b.items[w.index].Status = Late
			continue
		}
		ready = append(ready, w)
	}
	b.publish(ready)
	return inTime
}

func (b *putBatch) count() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	c := &b.s.counters
	for i := range b.items {
		switch b.items[i].Status {
		case Stored:
			c.Stored++
			c.WrittenBytes += uint64(b.ns.descriptor.BlockBytes)
		case Present:
			c.Present++
		case Dropped, Late:
			c.DroppedPuts++
		}
	}
}
