package pool

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// EraseOptions are about what was erased in the pool, and how nodes learn of it. Zero
// values mean the defaults named here.
type EraseOptions struct {
	// FS holds Options.Dir; nil: the machine's.
	FS vfs.FS
	// Tombstones bounds the deletions, of all nodes, that this node can name to a node
	// that was away: 32 bytes of memory and 92 on disk each. A node that was away for
	// more of them erases its blocks of the namespaces concerned. (1<<20)
	Tombstones int
	// Every is how often a node compares with each other what was erased. (3s)
	Every time.Duration
	// Time bounds how long a Delete or Drop waits for the other members. (5s)
	Time time.Duration
	// JoinTime bounds how long a node waits for the members that it can reach to tell it
	// what was erased, before it answers anybody. (10s)
	JoinTime time.Duration
	// Stores are the node's stores.
	Stores []StoreFact
}

// StoreFact is a store of the node. One that was not there at the latest start, and holds
// blocks, holds some that were deleted meanwhile.
type StoreFact struct {
	ID    [16]byte
	Empty bool // it holds no block
}

func (o *EraseOptions) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Tombstones == 0 {
		o.Tombstones = 1 << 20
	}
	for _, d := range []struct {
		at *time.Duration
		is time.Duration
	}{{&o.Every, 3 * time.Second}, {&o.Time, 5 * time.Second}, {&o.JoinTime, 10 * time.Second}} {
		if *d.at == 0 {
			*d.at = d.is
		}
	}
}

func (o *EraseOptions) validate() error {
	switch {
	case o.Tombstones < logFiles || o.Tombstones > 1<<28:
		return fmt.Errorf("%w: %d tombstones, want %d to %d", ErrOptions, o.Tombstones, logFiles, 1<<28)
	case o.Every < time.Millisecond || o.Time < time.Millisecond || o.JoinTime < time.Millisecond:
		return fmt.Errorf("%w: times %v, %v and %v of erasing, want 1ms at least", ErrOptions, o.Every, o.Time, o.JoinTime)
	}
	return nil
}
