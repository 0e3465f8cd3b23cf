package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/wal"
)

// committer makes things durable in groups. One pass syncs the data files
// written since the last one and then the log, so that everything published
// before the pass is on stable media after it. A lighter pass syncs the log
// alone, to open freed slots.
type committer struct {
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu        sync.Mutex
	wantData  bool // a durable put waits, or the interval is over
	wantFrees bool // a put waits for slots
}

func (c *committer) start(s *Store) {
	c.wake = make(chan struct{}, 1)
	c.stop = make(chan struct{})
	c.done = make(chan struct{})
	go c.run(s)
}

func (c *committer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *committer) kickFrees() {
	c.mu.Lock()
	c.wantFrees = true
	c.mu.Unlock()
	c.kick()
}

func (c *committer) kickData() {
	c.mu.Lock()
	c.wantData = true
	c.mu.Unlock()
	c.kick()
}

func (c *committer) run(s *Store) {
	defer close(c.done)
	interval := time.NewTicker(s.opts.SyncInterval)
	defer interval.Stop()
	for {
		ticked := false
		select {
		case <-c.stop:
			s.commitOnce(true)
			return
		case <-interval.C:
			ticked = true
		case <-c.wake:
		}
		c.mu.Lock()
		data, frees := c.wantData || ticked, c.wantFrees
		c.wantData, c.wantFrees = false, false
		c.mu.Unlock()
		if data || frees {
			s.commitOnce(data)
		}
	}
}

// commitOnce syncs what has been published so far: data (if asked) and log.
func (s *Store) commitOnce(data bool) {
	s.mu.Lock()
	if s.health != nil {
		s.mu.Unlock()
		return
	}
	for _, ns := range s.namespaces {
		_ = ns.payDropLocked() // while the log is full it stays owed
		for ns.appendFreesLocked() {
			s.turnLocked()
		}
	}
	last := uint64(s.wal.Last())
	if s.logSynced >= last && (!data || s.synced >= last) {
		s.mu.Unlock()
		return
	}
	var files []device.File
	if data {
		files = s.takeDirtyLocked()
	}
	s.monitor.commitSince = time.Now()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.monitor.commitSince = time.Time{}
		s.mu.Unlock()
	}()

	if err := s.syncFiles(files); err != nil {
		s.fail(fmt.Errorf("sync of block data failed: %w", err))
		return
	}
	if data {
		s.wal.SetDataSynced(wal.Position(last))
	}
	if err := s.wal.Sync(wal.Position(last)); err != nil {
		s.fail(fmt.Errorf("sync of the log failed: %w", err))
		return
	}

	s.mu.Lock()
	s.logSynced = max(s.logSynced, last)
	if data {
		s.synced = max(s.synced, last)
	}
	s.wakeLocked()
	s.settleAllFreesLocked()
	s.wakeLocked()
	s.mu.Unlock()
}

// syncLogOnce makes the log durable up to position, data aside.
func (s *Store) syncLogOnce(position uint64) error {
	if err := s.wal.Sync(wal.Position(position)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if position > s.logSynced {
		s.logSynced = position
		s.settleAllFreesLocked()
		s.wakeLocked()
	}
	return nil
}

// takeDirtyLocked takes the list of data files written since the last call.
func (s *Store) takeDirtyLocked() []device.File {
	var files []device.File
	for _, g := range s.segments {
		if g.dirty {
			g.dirty = false
			files = append(files, g.file)
		}
	}
	return files
}

const (
	// syncsAtOnce bounds the file syncs in flight.
	syncsAtOnce = 8
	// queueReserve is the least room kept in the device's queue for syncs of files
	// and one op each of log, deletions, keeper, directory writer and probe: a sync
	// that finds the queue full would make the store read-only.
	queueReserve = 2 * syncsAtOnce
)

// syncFiles syncs all files at once. A file of a segment that went meanwhile
// has nothing left worth a sync.
func (s *Store) syncFiles(files []device.File) error {
	if len(files) == 0 {
		return nil
	}
	var errs []error
	for len(files) > syncsAtOnce {
		errs = append(errs, s.syncFiles(files[:syncsAtOnce]))
		files = files[syncsAtOnce:]
	}
	ops := make([]*device.Op, len(files))
	var left sync.WaitGroup
	left.Add(len(files))
	for i, f := range files {
		ops[i] = &device.Op{Kind: device.Sync, File: f, Done: func(*device.Op) { left.Done() }}
	}
	s.dev.Submit(ops)
	left.Wait()
	for _, op := range ops {
		if op.Err != nil && !errors.Is(op.Err, device.ErrClosed) {
			errs = append(errs, op.Err)
		}
	}
	return errors.Join(errs...)
}

// awaitSync waits until position is on stable media, the store fails, or late
// fires (a nil channel never does).
func (s *Store) awaitSync(position uint64, late <-chan struct{}) error {
	for {
		s.mu.Lock()
		synced, health, sick, progress := s.synced, s.health, s.monitor.sick, s.progress
		s.mu.Unlock()
		if synced >= position {
			return nil
		}
		if health != nil {
			return fmt.Errorf("%w: %w", ErrReadOnly, health)
		}
		if sick != nil {
			return sick
		}
		s.commit.kickData()
		select {
		case <-progress:
		case <-late:
			return errLate
		}
	}
}

var errLate = errors.New("the deadline passed")

// appendLocked appends a record to log and applier queue.
func (s *Store) appendLocked(payload []byte, barrier bool) (uint64, error) {
	if s.health != nil {
		return 0, fmt.Errorf("%w: %w", ErrReadOnly, s.health)
	}
	p, err := s.wal.Append(payload, barrier)
	if err != nil {
		if !errors.Is(err, wal.ErrFull) {
			s.failLocked(fmt.Errorf("log: %w", err))
		} else {
			s.apply.flushSoon()
		}
		return 0, err
	}
	s.apply.push(uint64(p), payload)
	return uint64(p), nil
}
