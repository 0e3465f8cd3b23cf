package memory

import (
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/engine/fault"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// Block is a block that was found. Its bytes stay as they are until Release, whatever
// becomes of the block meanwhile. The zero Block is none.
type Block struct {
	tier  *Tier
	frame arena.Frame
	sum   uint64
}

// Valid reports whether b is a block at all.
func (b Block) Valid() bool { return b.tier != nil }

// ErrDecayed: the bytes of a block are not those that came in.
var ErrDecayed = errors.New("memory: a block has changed in memory")

// CopyTo copies the block over pieces that have its length together. They may be a
// client's memory: if some of it is gone the error matches syscall.EFAULT, and
// what was copied by then stays.
func (b Block) CopyTo(pieces [][]byte) error {
	bytes := b.frame.Bytes()
	if b.tier.verify && xxh3.Hash(bytes) != b.sum {
		b.tier.mu.Lock()
		b.tier.counts.Decayed++
		b.tier.mu.Unlock()
		return ErrDecayed
	}
	return Scatter(pieces, bytes)
}

// Bytes are the block's, unless it has decayed: that is for the caller to find out. They
// are not to be changed, nor used after Release.
func (b Block) Bytes() []byte { return b.frame.Bytes() }

// Release gives the block back.
func (b Block) Release() { b.frame.Release() }

// Scatter copies bytes over pieces, as CopyTo does.
func Scatter(pieces [][]byte, bytes []byte) error {
	return fault.Guard(func() {
		for _, p := range pieces {
			bytes = bytes[copy(p, bytes):]
		}
	})
}
