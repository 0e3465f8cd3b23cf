package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// errIndexFailed marks a Pebble that asked to end the process. It must not be
// called any more.
var errIndexFailed = errors.New("the index library gave up")

// indexTrouble hears what goes wrong inside Pebble and keeps it from ending the
// process, from waiting for ever, and from retrying without a pause.
type indexTrouble struct {
	log    *slog.Logger
	failed atomic.Bool   // Pebble asked to end the process
	once   sync.Once     // guards the close of dead
	dead   chan struct{} // closed with failed
	// background holds the newest error of a flush or compaction since it was
	// last looked at.
	background chan error
	last       atomic.Int64 // time of the newest such error, Unix ns
}

func newIndexTrouble(logger *slog.Logger) *indexTrouble {
	return &indexTrouble{log: logger, dead: make(chan struct{}), background: make(chan error, 1)}
}

// Infof is Pebble's.
func (t *indexTrouble) Infof(format string, args ...any) {
	t.log.Debug("index: " + fmt.Sprintf(format, args...))
}

// Errorf is Pebble's.
func (t *indexTrouble) Errorf(format string, args ...any) {
	t.log.Error("index: " + fmt.Sprintf(format, args...))
}

// Fatalf ends only the calling goroutine: Pebble expects no return from here.
func (t *indexTrouble) Fatalf(format string, args ...any) {
	t.failed.Store(true)
	t.once.Do(func() { close(t.dead) })
	t.log.Error("index gave up: " + fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// listener hears events. Without it Pebble would end the process at the first
// damaged block of the index.
func (t *indexTrouble) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: t.heard,
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			t.log.Error("index: damaged file", "path", info.Path, "cause", info.Details.Error())
		},
	}
}

// heard keeps the newest error for whoever waits. Pebble calls it under its own
// lock, and tries again at once, for ever: the first error of a series is logged.
func (t *indexTrouble) heard(err error) {
	now := time.Now().UnixNano()
	if before := t.last.Swap(now); now-before > (10 * indexRetryPause).Nanoseconds() {
		t.log.Warn("index: a flush or compaction failed and is tried again", "cause", err.Error())
	}
	select {
	case <-t.background:
	default:
	}
	select {
	case t.background <- err:
	default:
	}
}

// indexRetryPause is how long Pebble's next file waits after an error.
const indexRetryPause = 100 * time.Millisecond

// pacedFS lets Pebble create files, but not at full speed after an error: a
// flush that finds no room is retried without any pause of its own.
type pacedFS struct {
	vfs.FS
	trouble *indexTrouble
}

// Create implements vfs.FS. Only the tables of a flush or compaction wait:
// Pebble creates them without a lock, and some others while it holds one.
func (p pacedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob") {
		since := time.Duration(time.Now().UnixNano() - p.trouble.last.Load())
		if since >= 0 && since < indexRetryPause {
			time.Sleep(indexRetryPause - since)
		}
	}
	f, err := p.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return unusedLog{f}, nil
}

// unusedLog is Pebble's own log, which stays empty: ours takes its place. Pebble
// begins and ends it all the same, and leaks the file when it cannot be written.
type unusedLog struct{ vfs.File }

func (unusedLog) Write(b []byte) (int, error)                 { return len(b), nil }
func (unusedLog) Sync() error                                 { return nil }
func (unusedLog) SyncData() error                             { return nil }
func (unusedLog) SyncTo(int64) (fullSync bool, err error)     { return true, nil }
func (unusedLog) Preallocate(offset, lengthBytes int64) error { return nil }

// Unwrap implements vfs.FS.
func (p pacedFS) Unwrap() vfs.FS { return p.FS }

// guard runs f on a goroutine of its own, which Fatalf may end.
func (t *indexTrouble) guard(f func() error) error {
	err := errIndexFailed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = f()
	}()
	<-ended
	return err
}

// flush makes everything written so far durable. It fails, and the flush goes on
// in the background, when Pebble reports an error meanwhile.
func (ix *index) flush() error {
	if ix.trouble.failed.Load() {
		return errIndexFailed
	}
	select {
	case <-ix.trouble.background: // an old one
	default:
	}
	done, err := ix.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("index: flush: %w", asCorrupt(err))
	}
	return ix.await(done)
}

// await waits for a flush that has begun.
func (ix *index) await(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case err := <-ix.trouble.background:
		return fmt.Errorf("index: flush: %w", asCorrupt(err))
	case <-ix.trouble.dead:
		return errIndexFailed
	}
}
