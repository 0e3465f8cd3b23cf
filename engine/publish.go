package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/wal"
)

// errLogFull: the index cannot be made durable, so the log cannot be trimmed.
// On a healthy file system that passes in moments.
var errLogFull = fmt.Errorf("%w: %w", ErrNoSpace, wal.ErrFull)

// publish publishes writes that have ended and answers their items. While the
// log is full it waits for room: the applier is flushing the index.
func (b *putBatch) publish(ready []*writeOp) {
	longest := time.NewTimer(putWaitMax)
	defer longest.Stop()
	for todo := ready; len(todo) > 0; {
		var progress <-chan struct{}
		todo, progress = b.publishOnce(todo)
		if len(todo) == 0 {
			break
		}
		if b.opts.DropIfBusy {
			b.unclaim(todo, Dropped, errLogFull)
			break
		}
		select {
		case <-progress:
			continue
		case <-b.late:
			b.unclaim(todo, Late, nil)
			b.lateAll()
		case <-longest.C:
			b.unclaim(todo, Dropped, errLogFull)
		}
		break
	}
	for _, w := range ready {
		w.end()
	}
}

// publishOnce returns the writes that the log had no room for.
func (b *putBatch) publishOnce(ready []*writeOp) (full []*writeOp, progress <-chan struct{}) {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range ready { // all of them: the log may have no room for some
		w.landLocked()
	}
	for n, w := range ready {
		it := &b.items[w.index]
		it.StartedAt = w.op.StartedAt
		position, err := w.publishLocked()
		if errors.Is(err, wal.ErrFull) {
			full = ready[n:] // in order, so the rest has to wait too
			break
		}
		if err != nil {
			it.Status, it.Err = Dropped, err
			continue
		}
		it.Status = Stored
		b.newest = max(b.newest, position)
	}
	if len(full) < len(ready) {
		s.wakeLocked()
	}
	return full, s.progress
}

// unclaim answers writes that could not be logged; their memory is free.
func (b *putBatch) unclaim(writes []*writeOp, status Status, cause error) {
	b.s.mu.Lock()
	for _, w := range writes {
		w.unclaimIfClaimedLocked()
		b.items[w.index].Status, b.items[w.index].Err = status, cause
	}
	b.s.wakeLocked()
	b.s.mu.Unlock()
	for _, w := range writes {
		if status == Late {
			b.opts.Released(w.index)
		}
	}
}

// awaitDurable waits for the sync that covers the batch.
func (b *putBatch) awaitDurable() {
	err := b.s.awaitSync(b.newest, b.late)
	if err == nil {
		return
	}
	for i := range b.items {
		it := &b.items[i]
		if it.Status != Stored && it.Status != Present {
			continue
		}
		if errors.Is(err, errLate) {
			it.Status = Late
			b.opts.Released(i)
		} else {
			it.Status, it.Err = Dropped, err
		}
	}
}

// lateAll answers Late for the items whose memory no transfer uses. What was
// stored before is acknowledged only as far as it needs no more waiting.
func (b *putBatch) lateAll() {
	for _, i := range b.todo {
		b.items[i].Status = Late
		b.opts.Released(i)
	}
	b.todo = nil
	b.late = passed
}

func (b *putBatch) dropAll(cause error) {
	for _, i := range b.todo {
		b.items[i].Status, b.items[i].Err = Dropped, cause
	}
	b.todo = nil
}
