package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine/device"
)

// CheckOptions configure a Check. Zero values mean the defaults named here.
type CheckOptions struct {
	// Dir is the store's directory. The store must not be open.
	Dir string
	// BufferedIO, AnyFileSystem and LockWait as in Options.
	BufferedIO    bool
	AnyFileSystem bool
	LockWait      time.Duration
	// NoData leaves the blocks themselves unread.
	NoData bool
	// Rebuild makes a new index from the directories of the segments, the log,
	// and what can be read of the old index. Without it nothing is written but
	// what taking the directory writes: its lock file.
	Rebuild bool
	// OnFault, if set, gets every fault, in order, as it is found.
	OnFault func(Fault)
	// Progress, if set, is called several times a second while blocks are read.
	Progress func(CheckProgress)
	// Logger receives what no fault tells. Default: discard.
	Logger *slog.Logger

	// Device and IndexFS replace the real directory, as in Options.
	Device  device.Device
	IndexFS vfs.FS
}

// Severity of a Fault.
type Severity string

const (
	// Damage: bytes are lost or changed.
	Damage Severity = "damage"
	// Notice: worth a look, and no harm.
	Notice Severity = "notice"
)

// Fault is one thing that a check found.
type Fault struct {
	Severity Severity `json:"severity"`          // damage or notice
	File     string   `json:"file"`              // in the directory
	Segment  uint32   `json:"segment,omitempty"` // its number, if a segment is concerned
	Slot     *uint32  `json:"slot,omitempty"`    // if one slot is
	Offset   int64    `json:"offset"`            // in bytes from the start of File; -1: no single place
	What     string   `json:"what"`              // is wrong
	Means    string   `json:"means"`             // for the store
}

// CheckProgress is how far the reading of blocks is.
type CheckProgress struct {
	Phase      string        // "data", or "rebuild"
	DoneBytes  int64         // of TotalBytes
	TotalBytes int64         //
	Left       time.Duration // at the speed so far; 0 if unknown
}

// CheckReport sums a check up.
type CheckReport struct {
	StoreID  string `json:"store_id,omitempty"` // from the store file
	Clean    bool   `json:"clean"`              // the store was closed, not killed
	Segments int    `json:"segments"`           // sound ones
	LogFiles int    `json:"log_files"`          // spare ones included
	Blocks   int    `json:"blocks"`             // that index and log name
	Read     int    `json:"read"`               // of them, read and proven or found damaged
	// Lost blocks were put after the last sync before a power cut, and it took
	// them. That is no damage.
	Lost    int            `json:"lost"`
	Bytes   int64          `json:"bytes"`             // of blocks read
	Damage  int            `json:"damage"`            // faults that are damage
	Notices int            `json:"notices"`           // faults that are not
	Elapsed time.Duration  `json:"elapsed_ns"`        // how long it took
	Rebuilt *RebuildReport `json:"rebuilt,omitempty"` // if a rebuild was asked for
}

// RebuildReport sums a rebuild of the index up.
type RebuildReport struct {
	Restored int `json:"restored"` // blocks in the new index
	Unnamed  int `json:"unnamed"`  // of them, without their key
	Lost     int `json:"lost"`     // slots of which no block that was named could be proven
	// GivenUp are names that were not used: a deletion of which nothing is known
	// any more may have named them.
	GivenUp int           `json:"given_up"`
	Bytes   int64         `json:"bytes"`      // of blocks read
	Elapsed time.Duration `json:"elapsed_ns"` // how long it took
	// OldIndex is the folder that the old index was moved to; empty: there was none.
	OldIndex string `json:"old_index,omitempty"`
}

// SecondsPerGiB is how long the rebuild took for each GiB of blocks.
func (r *RebuildReport) SecondsPerGiB() float64 {
	if r.Bytes == 0 {
		return 0
	}
	return r.Elapsed.Seconds() / (float64(r.Bytes) / (1 << 30))
}

// checker is one check.
type checker struct {
	ctx context.Context
	o   CheckOptions
	dev device.Device
	fs  vfs.FS
	dir string // of the index, in fs

	report     CheckReport
	id         [16]byte
	layout     layout
	namespaces []checkedNamespace
	names      []string
	segments   map[uint32]*checkedSegment

	deletion      uint64 // position of the newest
	deletionKnown bool

	index   checkedIndex
	log     checkedLog
	blocks  *blockSet // what index and log name
	suspect []suspectRange
}

// Check looks at every byte of a store that nobody has open: its files, what
// they say of each other, and every block. It lists all faults; what a kill or
// a power cut leaves behind in a healthy store is none. The error is for what
// kept it from looking (ErrInUse, ErrNotAStore, ErrVersion, the system, ctx).
func Check(ctx context.Context, o CheckOptions) (report CheckReport, err error) {
	began := time.Now()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &checker{ctx: ctx, o: o, dev: o.Device, fs: o.IndexFS, segments: map[uint32]*checkedSegment{},
		blocks: newBlockSet(o.Rebuild)}
	if (o.Device == nil) != (o.IndexFS == nil) {
		return report, fmt.Errorf("%w: Device and IndexFS go together", ErrConfig)
	}
	if c.dev == nil {
		open := Options{Dir: o.Dir, MustExist: true, BufferedIO: o.BufferedIO, AnyFileSystem: o.AnyFileSystem,
			LockWait: o.LockWait, Logger: o.Logger}
		if err := open.Validate(); err != nil {
			return report, err
		}
		open.setDefaults()
		if c.dev, err = openDirectory(open); err != nil {
			return report, err
		}
		c.fs, c.dir = vfs.Default, o.Dir
	}
	err = c.run()
	for _, g := range c.segments {
		err = errors.Join(err, g.file.Close())
	}
	err = errors.Join(err, c.dev.Close())
	c.report.Elapsed = time.Since(began)
	return c.report, err
}

func (c *checker) run() error {
	known, err := c.checkStoreFile()
	if err != nil || !known {
		return err
	}
	for _, step := range []func() error{c.checkSegments, c.checkBallast, c.checkIndex, c.checkDeletions, c.checkLog, c.checkOrder, c.checkDirectories,
		c.checkBlocks, c.checkData} {
		if err := errors.Join(c.ctx.Err(), step()); err != nil {
			return err
		}
	}
	if c.o.Rebuild {
		return c.rebuild()
	}
	return nil
}

// fault reports one fault, in one line.
func (c *checker) fault(f Fault) {
	f.What = strings.Join(strings.Fields(f.What), " ")
	if f.Severity == Damage {
		c.report.Damage++
	} else {
		c.report.Notices++
	}
	if c.o.OnFault != nil {
		c.o.OnFault(f)
	}
}

// damage reports damage of a file; offset -1 is the file as a whole.
func (c *checker) damage(file string, offset int64, what, means string) {
	number, _ := segmentNumber(file)
	c.fault(Fault{Severity: Damage, File: file, Segment: number, Offset: offset, What: what, Means: means})
}

func (c *checker) notice(file, what, means string) {
	number, _ := segmentNumber(file)
	c.fault(Fault{Severity: Notice, File: file, Segment: number, Offset: -1, What: what, Means: means})
}

// indexPath is the path of a folder beside the segments.
func (c *checker) indexPath(folder string) string {
	if c.dir == "" {
		return folder
	}
	return filepath.Join(c.dir, folder)
}

// unclean reports whether a put of this position may have lost its bytes to a
// power cut.
func (c *checker) unclean(position uint64) bool {
	for _, r := range c.suspect {
		if position > r.from && position <= r.to {
			return true
		}
	}
	return false
}
