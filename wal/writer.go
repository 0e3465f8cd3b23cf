package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// writer is what only the writer goroutine touches.
type writer struct {
	file       device.File // being written
	number     uint64
	fileFirst  Position
	nextNumber uint64 // for the next file recycled
	buffer     []byte // one frame, aligned
}

// work is the writer's next step.
type work uint8

const (
	workWait    work = iota // until woken or until a time
	workRecycle             // make spares of freed files
	workPress               // call OnPressure
	workFrame               // write the oldest queued frame
	workSync
	workEnd
)

// run is the writer goroutine. Log.Close waits for it.
func (l *Log) run() {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		step, wait := l.nextLocked(time.Now())
		l.mu.Unlock()
		var err error
		switch step {
		case workWait:
			timer.Reset(wait)
			select {
			case <-l.wake:
			case <-timer.C:
			}
		case workRecycle:
			err = l.recycle()
		case workPress:
			l.opts.OnPressure()
		case workFrame:
			err = l.writeFrame()
		case workSync:
			err = l.syncWritten()
		}
		if err != nil || step == workEnd {
			l.finish(err)
			return
		}
	}
}

// idleWait is how long an idle writer sleeps if nobody wakes it.
const idleWait = time.Hour

// nextLocked chooses the next step. Freed files first, since a queued frame may
// need one; then a sync that is due, so that no stream of frames delays it.
func (l *Log) nextLocked(now time.Time) (step work, wait time.Duration) {
	if len(l.freed) > 0 {
		return workRecycle, 0
	}
	if l.pressed {
		l.pressed = false
		if l.opts.OnPressure != nil {
			return workPress, 0
		}
	}
	if l.syncGoal > l.synced && l.written >= l.syncGoal {
		return workSync, 0
	}
	if len(l.queue) > 0 {
		due := l.queue[0].since.Add(l.opts.WriteInterval)
		if l.closed || len(l.queue) > 1 || l.pendingBytes >= writeBytes ||
			max(l.writeWanted, l.syncWanted) > l.written || !now.Before(due) {
			return workFrame, 0
		}
		return workWait, due.Sub(now)
	}
	if !l.closed {
		return workWait, idleWait
	}
	if l.synced < l.written {
		return workSync, 0
	}
	return workEnd, 0
}

// finish ends the writer: err, if any, becomes the log's sticky error.
func (l *Log) finish(err error) {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	closeErr := l.w.file.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && closeErr != nil {
		err = fmt.Errorf("%w: %w", ErrFailed, closeErr)
	}
	l.err, l.ended = err, true
	l.queue, l.spare = nil, nil
	l.progress.Broadcast()
}

// writeFrame takes the oldest queued frame and writes it.
func (l *Log) writeFrame() error {
	l.mu.Lock()
	q := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	if len(l.queue) == 0 {
		l.queue = nil
		l.nextOffset = q.offset + int64(frameBytes(len(q.payload)))
	}
	l.mu.Unlock()
	if q.newFile {
		if err := l.nextFile(q.first); err != nil {
			return err
		}
	}
	l.mu.Lock()
	h := frameHeader{
		number: l.w.number, offset: q.offset, fileFirst: l.w.fileFirst,
		first: q.first, count: q.count, payloadBytes: uint32(len(q.payload)),
		synced: l.synced, dataSynced: l.dataSynced, barrier: q.barrier, storeID: l.opts.StoreID,
	}
	l.mu.Unlock()
	frame := l.w.buffer[:frameBytes(len(q.payload))]
	copy(frame[frameHeaderBytes:], q.payload)
	h.seal(frame)
	if err := writeAt(l.dev, l.w.file, frame, q.offset); err != nil {
		return fmt.Errorf("writing %s: %w", l.w.file.Name(), err)
	}
	l.mu.Lock()
	l.written = q.last()
	l.pendingBytes -= len(q.payload)
	l.spare = q.payload[:0]
	l.progress.Broadcast()
	l.mu.Unlock()
	if l.opts.OnWritten != nil {
		l.opts.OnWritten(q.last())
	}
	return nil
}

// syncWritten makes everything written durable. Only the file being written can
// hold anything that is not.
func (l *Log) syncWritten() error {
	l.mu.Lock()
	target := l.written
	l.mu.Unlock()
	if err := syncFile(l.dev, l.w.file); err != nil {
		return fmt.Errorf("syncing %s: %w", l.w.file.Name(), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = target
	if l.syncWanted > target {
		l.syncGoal = l.syncWanted
	}
	l.progress.Broadcast()
	return nil
}

// nextFile goes on in a spare file, of which the first record will be first.
func (l *Log) nextFile(first Position) error {
	if err := l.syncWritten(); err != nil {
		return err
	}
	l.mu.Lock()
	number := l.spares[0]
	l.mu.Unlock()
	f, err := startFile(l.dev, fileHeader{formatVersion, l.opts.StoreID, number, first}, l.w.buffer[:unitBytes])
	if err != nil {
		return err
	}
	old := l.w.file
	l.w.file, l.w.number, l.w.fileFirst = f, number, first
	l.mu.Lock()
	l.spares = l.spares[1:]
	l.files = append(l.files, logFile{number, first, l.opts.FileBytes})
	l.ahead--
	l.mu.Unlock()
	if err := old.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", old.Name(), err)
	}
	return nil
}

// startFile opens a spare file and brings it into use: its header is durable
// when startFile returns. unit is memory for the header.
func startFile(dev device.Device, h fileHeader, unit []byte) (device.File, error) {
	f, err := dev.Open(fileName(h.number))
	if err != nil {
		return nil, err
	}
	h.encode(unit)
	if err = writeAt(dev, f, unit, 0); err == nil {
		err = syncFile(dev, f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// recycle turns the freed files into spares, or removes those that are too many
// or of another size. It creates what is then lacking.
func (l *Log) recycle() error {
	l.mu.Lock()
	freed := l.freed
	room := l.filesMax - len(l.files) - len(l.spares)
	l.mu.Unlock()
	spares, short, err := l.w.makeSpares(l.dev, l.opts.FileBytes, freed, room)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freed = l.freed[len(freed):]
	l.spares = append(l.spares, spares...)
	if short != nil {
		return l.makeDoLocked(short)
	}
	return nil
}

// makeDoLocked lets the log run with the files it has, if there are at least
// two and enough for the frames already queued. short is why there are no more.
func (l *Log) makeDoLocked(short error) error {
	have := len(l.files) + len(l.spares) + len(l.freed)
	if have < max(2, len(l.files)+l.ahead) {
		return short
	}
	l.filesMax = min(l.filesMax, have)
	l.opts.Logger.Warn("wal: running with fewer files", "files", l.filesMax, "wanted", l.opts.FilesMax, "cause", short)
	return nil
}

// makeSpares makes want spare files out of free ones, removes the other free
// ones and creates what is lacking. The names are durable when it returns. short
// says why there are fewer than wanted.
func (w *writer) makeSpares(dev device.Device, fileBytes int64, free []logFile, want int) (spares []uint64, short, err error) {
	for _, f := range free {
		if f.size != fileBytes || len(spares) >= want {
			if err := dev.Remove(fileName(f.number)); err != nil {
				return nil, nil, fmt.Errorf("removing a log file: %w", err)
			}
			continue
		}
		if err := dev.Rename(fileName(f.number), fileName(w.nextNumber)); err != nil {
			return nil, nil, fmt.Errorf("recycling a log file: %w", err)
		}
		spares = append(spares, w.nextNumber)
		w.nextNumber++
	}
	for len(spares) < want && short == nil {
		if short = createFile(dev, w.nextNumber, fileBytes); short == nil {
			spares = append(spares, w.nextNumber)
			w.nextNumber++
		}
	}
	if err := dev.SyncDir(); err != nil {
		return nil, nil, fmt.Errorf("syncing the directory: %w", err)
	}
	return spares, short, nil
}

func createFile(dev device.Device, number uint64, fileBytes int64) error {
	f, err := dev.Create(fileName(number), fileBytes)
	if err != nil {
		return fmt.Errorf("creating a log file of %d bytes: %w", fileBytes, err)
	}
	return f.Close()
}
