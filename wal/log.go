package wal

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// Log is an open log. All methods may be called from many goroutines.
//
// Append copies a record into a queued frame and returns: it never waits for a
// device. The place of every queued frame, file and offset, is fixed at that
// moment, so an accepted record always has room, and ErrFull is told at the
// door. One goroutine, the writer, owns all I/O: it takes the oldest queued
// frame, closes it, writes it, and, if somebody waits for it, syncs. While it is
// busy new records gather in the next frame, so concurrent callers of Sync
// share writes and syncs without further machinery.
//
// Invariants, under mu: synced <= written <= last; the queued frames continue
// behind written and end at last; only the newest queued frame grows; len(files)
// + ahead <= filesMax whenever a frame of a new file is queued, so that the
// writer finds a spare for it.
//
// The first failed write, sync or change of the directory ends the log for
// good. Nothing is tried a second time: after a failed sync the system may have
// dropped the bytes, and a second sync would say yes.
type Log struct {
	dev  device.Device
	opts Options
	w    writer        // the writer goroutine's own
	wake chan struct{} // capacity 1: there may be work
	done chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	progress *sync.Cond // on mu: written, synced or err moved, or the writer ended

	queue        []*queued
	spare        []byte // payload memory of a written frame, for the next one
	pendingBytes int    // of records not yet written
	nextOffset   int64  // where the frame after the taken ones goes
	last         Position
	written      Position
	synced       Position
	dataSynced   Position
	barrier      Position // the latest barrier record, or the careful guess of the start

	writeWanted Position // somebody waits for it to be written
	syncWanted  Position // somebody waits for it to be synced
	syncGoal    Position // the next sync happens when this is written

	files    []logFile // in use, oldest first; the last one is being written
	freed    []logFile // covered by Trim, not yet recycled
	spares   []uint64  // numbers of the files ready for use, ascending
	filesMax int       // files that may be in use
	ahead    int       // new files that queued frames will open
	pressed  bool      // OnPressure is due
	calm     bool      // Trim has freed a file since the last OnPressure

	err    error // sticky
	closed bool
	ended  bool // the writer is gone
}

// queued is a frame that waits for the writer.
type queued struct {
	newFile bool // it opens the next file
	offset  int64
	first   Position
	count   uint32
	payload []byte // records with their lengths
	barrier Position
	since   time.Time
}

func (q *queued) last() Position { return q.first + Position(q.count) - 1 }

// logFile is a file in use or just freed.
type logFile struct {
	number uint64
	first  Position
	size   int64
}

// Append adds a record and returns its position. It copies payload. barrier
// marks a record whose loss must not go unnoticed (see Gap). It never waits for
// the device. Errors: ErrFull, ErrTooLarge, ErrClosed, ErrFailed; the record is
// then not in the log.
func (l *Log) Append(payload []byte, barrier bool) (Position, error) {
	if limit := l.opts.RecordMaxBytes(); len(payload) > limit {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), limit)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusalLocked(); err != nil {
		return 0, err
	}
	need := lengthBytes + len(payload)
	if l.pendingBytes > 0 && l.pendingBytes+need > l.opts.PendingMaxBytes {
		return 0, fmt.Errorf("%w: %d bytes wait to be written", ErrFull, l.pendingBytes)
	}
	q, err := l.openFrameLocked(need)
	if err != nil {
		return 0, err
	}
	q.payload = binary.LittleEndian.AppendUint32(q.payload, uint32(len(payload)))
	q.payload = append(q.payload, payload...)
	q.count++
	l.last++
	if barrier {
		l.barrier = l.last
	}
	before := l.pendingBytes
	l.pendingBytes += need
	if before < writeBytes && l.pendingBytes >= writeBytes {
		l.signal()
	}
	return l.last, nil
}

func (l *Log) refusalLocked() error {
	switch {
	case l.err != nil:
		return l.err
	case l.closed:
		return ErrClosed
	case len(l.files) > l.filesMax:
		return ErrUntrimmed // an open that found every file in use; see Open
	}
	return nil
}

// openFrameLocked returns a frame with room for needBytes: the newest queued
// one, or a new one at the next place.
func (l *Log) openFrameLocked(needBytes int) (*queued, error) {
	offset := l.nextOffset
	if n := len(l.queue); n > 0 {
		newest := l.queue[n-1]
		if grown := frameBytes(len(newest.payload) + needBytes); grown <= frameBytesMax && newest.offset+int64(grown) <= l.opts.FileBytes {
			return newest, nil
		}
		offset = newest.offset + int64(frameBytes(len(newest.payload)))
	}
	q := &queued{offset: offset, first: l.last + 1, barrier: l.barrier, since: time.Now()}
	if q.offset+int64(frameBytes(needBytes)) > l.opts.FileBytes {
		if len(l.files)+l.ahead >= l.filesMax {
			return nil, ErrUntrimmed
		}
		l.ahead++
		q.newFile, q.offset = true, unitBytes
		if l.calm && 2*(len(l.files)+l.ahead) > l.filesMax {
			l.pressed, l.calm = true, false
		}
	}
	q.payload, l.spare = l.spare[:0], nil
	l.queue = append(l.queue, q)
	l.signal()
	return q, nil
}

// signal tells the writer that there may be work.
func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Write waits until the record at p and all before it are written: they survive
// the process, not a power cut. p must have been appended.
func (l *Log) Write(p Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mustExistLocked(p)
	if p > l.written && p > l.writeWanted {
		l.writeWanted = p
		l.signal()
	}
	return l.waitLocked(&l.written, p)
}

// Sync waits until the record at p and all before it are on stable media. p
// must have been appended.
func (l *Log) Sync(p Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mustExistLocked(p)
	if p > l.syncWanted {
		if l.syncGoal <= l.synced {
			l.syncGoal = p
		}
		l.syncWanted = p
		l.signal()
	}
	return l.waitLocked(&l.synced, p)
}

func (l *Log) mustExistLocked(p Position) {
	if p > l.last {
		panic(fmt.Sprintf("wal: waiting for position %d, the last is %d", p, l.last))
	}
}

func (l *Log) waitLocked(reached *Position, p Position) error {
	for *reached < p {
		if l.err != nil {
			return l.err
		}
		if l.ended {
			return ErrClosed
		}
		l.progress.Wait()
	}
	return nil
}

// Last is the newest position that Append has given out, or that Open began behind.
func (l *Log) Last() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Written is the newest position of which the write has ended.
func (l *Log) Written() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// Synced is the newest position on stable media.
func (l *Log) Synced() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// SetDataSynced tells the log that what the records up to p speak of is on
// stable media. Frames built from now on carry it; it never falls.
func (l *Log) SetDataSynced(p Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dataSynced = max(l.dataSynced, p)
}

// Trim tells the log that records up to p are not needed any more: no recovery
// will be asked for them. Files that hold nothing else become free at once and
// are recycled in the background. The file being written is never freed.
func (l *Log) Trim(p Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n+1 < len(l.files) && l.files[n+1].first-1 <= p {
		n++
	}
	if n == 0 || l.err != nil || l.ended {
		return
	}
	l.freed = append(l.freed, l.files[:n]...)
	l.files = append(l.files[:0], l.files[n:]...)
	l.calm = true
	l.signal()
}

// DiskBytes is the size of all files of the log, spare ones included.
func (l *Log) DiskBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := int64(len(l.spares)) * l.opts.FileBytes
	for _, files := range [][]logFile{l.files, l.freed} {
		for _, f := range files {
			sum += f.size
		}
	}
	return sum
}

// Close writes and syncs everything that was appended and ends the writer.
// Append then answers ErrClosed. Close waits; a second call waits too and gives
// the same answer. The device stays open.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
