package engine

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
)

// Options configure a store. Zero values mean the defaults named here.
type Options struct {
	// Dir is the store's directory; created if missing (its parent must exist).
	Dir string
	// CapacityBytes bounds everything the store keeps on disk: segments, index
	// and log. 0 keeps what an existing store has; a new store needs it. When
	// lowered, the coldest whole segments go at Open.
	CapacityBytes int64
	// SegmentBytes is the target size of a segment in a new store. Default:
	// capacity/64 within 16 MiB..1 GiB. A segment never has fewer than 8 slots.
	SegmentBytes int64
	// MustExist refuses to create a store where there is none.
	MustExist bool
	// IndexMemoryMaxBytes bounds the memory of the index table. Default 1 GiB.
	// A namespace whose blocks could need more is refused.
	IndexMemoryMaxBytes int64
	// FrameBytes bounds the private memory through which unaligned, bounced and
	// shared transfers go. Default 64 MiB, at least two of the largest block.
	FrameBytes int64
	// QueueDepth is the number of transfers the device runs at once. Default 32.
	QueueDepth int
	// QueueOps bounds transfers queued and in flight. Default 4096.
	QueueOps int
	// BufferedIO allows buffered I/O where direct I/O is missing, with a warning.
	BufferedIO bool
	// AnyFileSystem allows file systems other than ext4 and XFS.
	AnyFileSystem bool
	// SyncInterval is the longest time a relaxed put stays unsynced. Default 1 s.
	SyncInterval time.Duration
	// LeaseMax caps a lease's time. Default 60 s.
	LeaseMax time.Duration
	// LeaseShare caps the part of a namespace's slots under lease. Default 0.25.
	LeaseShare float64
	// LockWait is how long Open retries a directory in use. Default 5 s.
	LockWait time.Duration
	// NewPolicy makes a namespace's eviction policy for at most max blocks.
	// Default: tail-first LRU.
	NewPolicy func(max int) evict.Policy
	// Logger receives the store's log lines. Default: discard.
	Logger *slog.Logger

	// Device and IndexFS replace the real directory, for tests: the device
	// holds segments, log and store file, IndexFS the index. Open takes
	// ownership of Device. Both or neither.
	Device  device.Device
	IndexFS vfs.FS
}
