package device

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options configure a psync device. Zero values mean the defaults named here.
type Options struct {
	// QueueDepth is the number of workers, so of system calls at once; each may
	// hold an operating-system thread. 1 to 1024, default 32.
	QueueDepth int
	// QueueOps bounds the Ops queued and in flight. At least QueueDepth, default
	// 4096.
	QueueOps int
	// BufferedIO allows I/O through the page cache where direct I/O is missing,
	// with a warning. Direct I/O is used wherever it works.
	BufferedIO bool
	// AnyFileSystem allows file systems other than ext4 and XFS.
	AnyFileSystem bool
	// LockWait is how long OpenDir retries a directory in use. Default 5 s.
	LockWait time.Duration
	// Create makes the directory if it is missing; its parent must exist.
	Create bool
	// Logger receives the warning about buffered I/O. Default: discard.
	Logger *slog.Logger
}

const (
	queueDepthDefault = 32
	queueDepthMax     = 1024
	queueOpsDefault   = 4096
	queueOpsMax       = 1 << 20
	lockWaitDefault   = 5 * time.Second
)

func (o Options) withDefaults() Options {
	if o.QueueDepth == 0 {
		o.QueueDepth = queueDepthDefault
	}
	if o.QueueOps == 0 {
		o.QueueOps = max(queueOpsDefault, o.QueueDepth)
	}
	if o.LockWait == 0 {
		o.LockWait = lockWaitDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate reports values that are out of range or contradict each other,
// taking zero values for the defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.QueueDepth < 1 || o.QueueDepth > queueDepthMax:
		return fmt.Errorf("device: QueueDepth is %d, want 1 to %d", o.QueueDepth, queueDepthMax)
	case o.QueueOps < o.QueueDepth || o.QueueOps > queueOpsMax:
		return fmt.Errorf("device: QueueOps is %d, want at least QueueDepth (%d) and at most %d", o.QueueOps, o.QueueDepth, queueOpsMax)
	case o.LockWait < 0:
		return fmt.Errorf("device: LockWait is %v, want 0 or more", o.LockWait)
	}
	return nil
}

// InUseError says that another opening, in this process or another, holds a
// directory.
type InUseError struct {
	Dir string
	// Holder is what the lock file tells, as in "pid 4711 (spillway)".
	Holder string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("directory %s is in use by %s", e.Dir, e.Holder)
}

// UnsupportedError says that a directory's file system cannot serve as asked.
// It matches errors.ErrUnsupported.
type UnsupportedError struct {
	Dir        string
	FileSystem string
	Problem    string
	Remedy     string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("directory %s on %s: %s; %s", e.Dir, e.FileSystem, e.Problem, e.Remedy)
}

// Is reports whether target is errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }
