package device

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The engines of Options.Engine.
const (
	EngineAuto  = "auto"  // io_uring and workers, by request; workers alone where io_uring is refused
	EngineUring = "uring" // io_uring, or *UnsupportedError
	EnginePsync = "psync" // workers alone
)

// Options configure the device of a directory. Zero values mean the defaults
// named here.
type Options struct {
	// Engine is how transfers are made: EngineAuto (default), EngineUring or
	// EnginePsync. Facts.Device tells what it came to, Facts.Notes why.
	Engine string
	// Rings is the number of io_urings, each with a goroutine that calls Done: more
	// than one only where a single goroutine cannot keep up with hashing and
	// copying. 1 to 16, default 1.
	Rings int
	// QueueDepth is the number of transfers at once. It is also the number of
	// workers; each may hold an operating-system thread while it works. At least
	// Rings, 1 to 1024, default 32.
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
	// Logger receives the warnings about buffered I/O and about io_uring that is
	// refused, once each at opening. Default: discard.
	Logger *slog.Logger
}

const (
	queueDepthDefault = 32
	queueDepthMax     = 1024
	ringsMax          = 16
	queueOpsDefault   = 4096
	queueOpsMax       = 1 << 20
	lockWaitDefault   = 5 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Engine == "" {
		o.Engine = EngineAuto
	}
	if o.Rings == 0 {
		o.Rings = 1
	}
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
	case o.Engine != EngineAuto && o.Engine != EngineUring && o.Engine != EnginePsync:
		return fmt.Errorf("device: Engine is %q, want %q, %q or %q", o.Engine, EngineAuto, EngineUring, EnginePsync)
	case o.Rings < 1 || o.Rings > ringsMax:
		return fmt.Errorf("device: Rings is %d, want 1 to %d", o.Rings, ringsMax)
	case o.QueueDepth < 1 || o.QueueDepth > queueDepthMax:
		return fmt.Errorf("device: QueueDepth is %d, want 1 to %d", o.QueueDepth, queueDepthMax)
	case o.QueueOps < o.QueueDepth || o.QueueOps > queueOpsMax:
		return fmt.Errorf("device: QueueOps is %d, want at least QueueDepth (%d) and at most %d", o.QueueOps, o.QueueDepth, queueOpsMax)
	case o.QueueDepth < o.Rings:
		return fmt.Errorf("device: QueueDepth is %d, want at least Rings (%d)", o.QueueDepth, o.Rings)
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

// UnsupportedError says that a directory's file system, or the system's
// io_uring, cannot serve as asked. It matches errors.ErrUnsupported, and its
// cause, if a call was refused.
type UnsupportedError struct {
	Dir        string
	FileSystem string
	Problem    string
	Remedy     string
	Cause      error // may be nil
}

// Unwrap gives the cause.
func (e *UnsupportedError) Unwrap() error { return e.Cause }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("directory %s on %s: %s; %s", e.Dir, e.FileSystem, e.Problem, e.Remedy)
}

// Is reports whether target is errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }
