package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/wal"
)

// applier copies log records into the durable index, in log order, once they
// are written. It is the index's only writer. Each index batch carries the
// position it completes, so that after a crash the index is exactly the state
// at some position and the log continues from there.
type applier struct {
	mu      sync.Mutex
	queue   []appliedRecord // appended, not yet applied; bounded by the log's size
	written uint64          // the log has written up to here
	closing bool
	cleanly bool // closing, and nothing is lost
	force   bool // flush the index and trim the log now
	wake    chan struct{}
	done    chan struct{}

	// Owned by the applier goroutine.
	applied   uint64
	flushed   uint64
	flushing  <-chan struct{}
	flushGoal uint64
	failed    bool // nothing is applied any more

	// reached is applied, for other goroutines.
	reached atomic.Uint64
}

type appliedRecord struct {
	position uint64
	payload  []byte
}

// applyBatchMax bounds the records of one index batch.
const applyBatchMax = 512

func (a *applier) start(s *Store, applied uint64) {
	a.applied, a.flushed, a.written = applied, applied, applied
	a.reached.Store(applied)
	a.wake = make(chan struct{}, 1)
	a.done = make(chan struct{})
	go a.run(s)
}

// push queues a record; Store.mu keeps positions in order.
func (a *applier) push(position uint64, payload []byte) {
	a.mu.Lock()
	a.queue = append(a.queue, appliedRecord{position, payload})
	late := position <= a.written // the log was faster than we
	a.mu.Unlock()
	if late {
		a.kick()
	}
}

// onWritten is the log's callback.
func (a *applier) onWritten(p wal.Position) {
	a.mu.Lock()
	a.written = max(a.written, uint64(p))
	a.mu.Unlock()
	a.kick()
}

func (a *applier) kick() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// flushSoon asks for an index flush, so that the log can be trimmed.
func (a *applier) flushSoon() {
	a.mu.Lock()
	a.force = true
	a.mu.Unlock()
	a.kick()
}

// stop applies what is written, flushes the index and ends the goroutine.
// cleanly says that all that was appended is written and its data synced.
func (a *applier) stop(cleanly bool) {
	a.mu.Lock()
	a.closing, a.cleanly = true, cleanly
	a.mu.Unlock()
	a.kick()
	<-a.done
}

func (a *applier) run(s *Store) {
	defer close(a.done)
	for {
		batch, closing, force := a.next()
		if len(batch) > 0 {
			// After an error nothing is applied any more: what comes later would hide
			// what is missing.
			if a.failed {
				continue
			}
			if err := a.applyAll(s, batch); err != nil {
				a.failed = true
				s.fail(fmt.Errorf("index: %w", err))
			}
			continue
		}
		if closing {
			a.finish(s)
			return
		}
		if force && a.flushing == nil {
			a.startFlush(s)
		}
		select {
		case <-a.wake:
		case <-a.flushing: // nil while no flush runs
			a.flushing = nil
			a.flushed = a.flushGoal
			s.wal.Trim(wal.Position(a.flushed))
			s.mu.Lock()
			s.wakeLocked() // the log has room
			s.mu.Unlock()
		}
	}
}

// next takes the written records off the queue.
func (a *applier) next() (batch []appliedRecord, closing, force bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.queue) && n < applyBatchMax && a.queue[n].position <= a.written {
		n++
	}
	batch = a.queue[:n:n]
	a.queue = a.queue[n:]
	force = a.force
	if n == 0 && force && a.flushing == nil {
		a.force = false
	}
	return batch, a.closing, force
}

func (a *applier) applyAll(s *Store, records []appliedRecord) error {
	if s.index.trouble.failed.Load() {
		return errIndexFailed
	}
	b, events := s.newBatch()
	defer b.Close()
	for _, r := range records {
		events.add(r.payload)
		if err := applyRecord(b, r.position, r.payload); err != nil {
			return err
		}
	}
	last := records[len(records)-1].position
	if err := setApplied(b, last); err != nil {
		return err
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	a.applied = last
	events.send()
	a.reached.Store(last)
	if planted.Active(planted.TrimEarly) {
		s.wal.Trim(wal.Position(last))
	}
	return nil
}

func (a *applier) startFlush(s *Store) {
	if a.applied == a.flushed || s.index.trouble.failed.Load() {
		return
	}
	ch, err := s.index.db.AsyncFlush()
	if err != nil {
		s.fail(fmt.Errorf("index: flush: %w", err))
		return
	}
	a.flushing, a.flushGoal = ch, a.applied
}

// finish flushes what was applied, so that the next open replays nothing.
func (a *applier) finish(s *Store) {
	if a.flushing != nil {
		if err := s.index.await(a.flushing); err != nil {
			s.log.Error("index flush at close failed; the log will be replayed", "cause", err)
			return
		}
	}
	if s.index.trouble.failed.Load() {
		return
	}
	s.mu.Lock()
	synced := s.synced
	s.mu.Unlock()
	a.mu.Lock()
	cleanly := a.cleanly && len(a.queue) == 0 && synced == a.applied
	a.mu.Unlock()
	b := s.index.db.NewBatch()
	defer b.Close()
	err := setNumber(b, keyDataSynced, synced)
	if cleanly {
		err = errors.Join(err, setNumber(b, keyClean, 1))
	}
	err = errors.Join(err, b.Commit(pebble.NoSync))
	if err == nil {
		err = s.index.flush()
	}
	if err != nil {
		s.log.Error("index flush at close failed; the log will be replayed", "cause", err)
		return
	}
	s.wal.Trim(wal.Position(a.applied)) // for a log that is still open
}

// applyRecord turns one log record into index changes.
func applyRecord(b *pebble.Batch, position uint64, payload []byte) error {
	if len(payload) == 0 {
		return fmt.Errorf("%w: empty log record %d", ErrCorrupt, position)
	}
	var inner error
	keep := func(err error) {
		if inner == nil {
			inner = err
		}
	}
	var err error
	switch payload[0] {
	case recordPut:
		var r putRecord
		if r, err = decodePut(payload); err == nil {
			err = b.Set(appendIndexKey(nil, r.namespace, r.incarnation, r.id, position), appendIndexValue(nil, &r), nil)
		}
	case recordFree:
		err = decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			keep(b.Delete(appendIndexKey(nil, ns, incarnation, it.id, it.position), nil))
		})
	case recordDelete:
		err = decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			keep(b.DeleteRange(appendIndexKey(nil, ns, incarnation, it.id, 0),
				appendIndexKey(nil, ns, incarnation, it.id, it.position+1), nil))
		})
	case recordQuarantine:
		err = decodeQuarantine(payload, func(p Place) { keep(b.Set(quarantineKey(p), nil, nil)) })
	case recordSegmentGone:
		var n uint32
		if n, err = decodeSegmentGone(payload); err == nil {
			err = b.DeleteRange(quarantineKey(MakePlace(n, 0)), quarantineKey(MakePlace(n+1, 0)), nil)
		}
	case recordDrop:
		var ns, incarnation uint32
		if ns, incarnation, err = decodeDrop(payload); err == nil && !planted.Active(planted.ForgetIncarnation) {
			err = b.DeleteRange(dropPrefix(ns, 0), dropPrefix(ns, incarnation+1), nil)
		}
	default:
		err = fmt.Errorf("%w: log record %d of unknown kind %d", ErrCorrupt, position, payload[0])
	}
	if err == nil {
		err = inner
	}
	return err
}
