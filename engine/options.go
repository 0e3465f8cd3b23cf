package engine

import (
	"fmt"
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
	// RefuseLostIndex refuses (ErrIndexLost) a store whose index folder is gone
	// while its segments are there, and leaves it as it is for a Check with
	// Rebuild. Otherwise such a store opens, its blocks are misses and their room
	// is used again.
	RefuseLostIndex bool
	// IndexMemoryMaxBytes bounds the memory of the index table. Default 1 GiB.
	// A namespace whose blocks could need more is refused. While Open reads the
	// index it uses up to 80 bytes more for each block that it finds.
	IndexMemoryMaxBytes int64
	// FrameBytes bounds the private memory through which unaligned, bounced and
	// shared transfers go. Default 64 MiB, at least two of the largest block.
	FrameBytes int64
	// IOEngine is how transfers are made: "auto" (default: io_uring, with pread and
	// pwrite on workers for what they do better, or alone where io_uring is
	// refused), "uring" (io_uring, or Open fails) or "psync" (workers alone).
	// Stat.Device tells what it came to.
	IOEngine string
	// Rings is the number of io_urings, 1 to 16. Default 1; more only where one
	// goroutine cannot keep up with verifying what the drive delivers.
	Rings int
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
	// StuckAfter is how long one transfer may take before the drive counts as
	// sick. Default 5 s.
	StuckAfter time.Duration
	// ScrubBytesPerSecond reads and proves all blocks in the background at this
	// rate, over and over with a rest between passes. Default 0: never.
	ScrubBytesPerSecond int64
	// LeaseMax caps a lease's time. Default 60 s.
	LeaseMax time.Duration
	// LeaseShare caps the part of a namespace's slots under lease. Default 0.25.
	LeaseShare float64
	// LockWait is how long Open retries a directory in use. Default 5 s.
	LockWait time.Duration
	// Policy makes the store's factory of eviction policies, one for each namespace,
	// for blocks numbered 1..max. Called once by Open, which returns its error; the
	// store frees the factory. Default: evict.NewHazard.
	Policy func(max int) (evict.Factory, error)
	// Logger receives the store's log lines. Default: discard.
	Logger *slog.Logger

	// Device and IndexFS replace the real directory, for tests: the device
	// holds segments, log and store file, IndexFS the index. Open takes
	// ownership of Device. Both or neither.
	Device  device.Device
	IndexFS vfs.FS
}

// Defaults of Options.
const (
	defaultIndexMemory = 1 << 30
	defaultFrameBytes  = 64 << 20
	defaultQueueOps    = 4096
	defaultLeaseShare  = 0.25
	indexBytesPerBlock = 96 // table 48 and 20 at the worst load, eviction order 20, ghosts 8
)

func (o *Options) setDefaults() {
	setDefault(&o.IndexMemoryMaxBytes, defaultIndexMemory)
	setDefault(&o.FrameBytes, defaultFrameBytes)
	setDefault(&o.IOEngine, device.EngineAuto)
	setDefault(&o.Rings, 1)
	setDefault(&o.QueueDepth, 32)
	setDefault(&o.QueueOps, defaultQueueOps)
	setDefault(&o.SyncInterval, time.Second)
	setDefault(&o.StuckAfter, 5*time.Second)
	setDefault(&o.LeaseMax, 60*time.Second)
	setDefault(&o.LeaseShare, defaultLeaseShare)
	setDefault(&o.LockWait, 5*time.Second)
	if o.Policy == nil {
		o.Policy = evict.NewHazard
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// WithDefaults fills in what is zero.
func (o Options) WithDefaults() Options {
	o.setDefaults()
	return o
}

// Validate reports the first option that is out of range or contradicts another.
func (o Options) Validate() error {
	o.setDefaults()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case o.Dir == "" && o.Device == nil:
		return bad("no directory given")
	case (o.Device == nil) != (o.IndexFS == nil):
		return bad("Device and IndexFS go together")
	case o.CapacityBytes < 0 || o.SegmentBytes < 0:
		return bad("negative capacity %d or segment size %d", o.CapacityBytes, o.SegmentBytes)
	case o.SegmentBytes > segmentBytesMax:
		return bad("segment size %d is more than %d", o.SegmentBytes, segmentBytesMax)
	case o.IndexMemoryMaxBytes < 1<<20:
		return bad("index memory %d is less than 1 MiB", o.IndexMemoryMaxBytes)
	case o.FrameBytes < 2*BlockBytesMin:
		return bad("frame memory %d cannot hold two blocks", o.FrameBytes)
	case o.deviceOptions().Validate() != nil:
		return bad("%w", o.deviceOptions().Validate())
	case o.QueueDepth < 1 || o.QueueOps < 32 || o.QueueDepth > o.QueueOps:
		return bad("queue depth %d and queue length %d: want 1 <= depth <= length and length >= 32", o.QueueDepth, o.QueueOps)
	case o.SyncInterval < time.Millisecond:
		return bad("sync interval %v is less than 1ms", o.SyncInterval)
	case o.StuckAfter < 100*time.Millisecond || o.ScrubBytesPerSecond < 0:
		return bad("stuck after %v is less than 100ms, or negative scrub rate %d", o.StuckAfter, o.ScrubBytesPerSecond)
	case o.LeaseMax < 0 || !(o.LeaseShare >= 0 && o.LeaseShare <= 1): // no number is refused too
		return bad("lease time %v or share %v", o.LeaseMax, o.LeaseShare)
	}
	return nil
}
