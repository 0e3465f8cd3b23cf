// Package memory keeps blocks in frames of an arena: the tier above the drives.
//
// A block is known by the version of its put (engine.Version), and whoever asks
// has just learned from the store which version is present. So nothing needs to be
// told here when a block is deleted, dropped, replaced or found damaged: its version
// is not asked for any more. What is left of it goes when it is noticed, or as the
// oldest.
//
// Frames are private memory, and a block is written there once, before it is added:
// proven by the store, and never changed.
package memory

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// Mode says which blocks are kept.
type Mode string

// Modes of a tier.
const (
	// Exclusive keeps what clients' own memory tiers do not: blocks that were
	// fetched ahead of their reader, until he has read them, and blocks that more
	// than one client reads.
	Exclusive Mode = "exclusive"
	// Inclusive keeps every block that is read.
	Inclusive Mode = "inclusive"
	// Off keeps nothing: there is no tier.
	Off Mode = "off"
)

// Options configure a Tier.
type Options struct {
	Bytes int64 // of all frames; at least arena.MinBytes
	Mode  Mode  // Exclusive or Inclusive; "": Exclusive
	Pages arena.Pages
	Nodes []int // NUMA nodes that the memory must come from; none: any
	// Verify checks the bytes again each time they are answered: it costs as much
	// as another fifth of the copy and finds memory that has gone bad.
	Verify bool
	// Policy makes the order in which blocks go, for those numbered 0..max.
	// Default evict.NewLRU.
	Policy func(max int) (evict.Factory, error)
}

// ErrOptions says that an option is out of range; the message quotes it.
var ErrOptions = errors.New("bad options of the memory tier")

// Validate reports the first option that is out of range, ErrOptions.
func (o Options) Validate() error {
	switch {
	case o.Bytes < arena.MinBytes:
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrOptions, o.Bytes, arena.MinBytes)
	case o.Mode != "" && o.Mode != Exclusive && o.Mode != Inclusive:
		return fmt.Errorf("%w: mode %q, want %s or %s", ErrOptions, o.Mode, Exclusive, Inclusive)
	}
	return nil
}

// Importance of a block for the policy. A block that is read by nobody else soon
// goes before all others.
const (
	spent = 0 // read by the one who has it in his own memory now, or not wanted any more
	kept  = 1
)
