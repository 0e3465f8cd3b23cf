package target

import (
	"sync/atomic"
	"time"
)

// freshKeys numbers the generations of blocks that are written again. Generation 0
// is what reads ask for. The others are never read: they are there because a
// store, unlike a drive, does not write over a block, so that a job that goes on
// writing needs blocks that are new.
type freshKeys struct{ last atomic.Uint64 }

// newFreshKeys begins at a number that no earlier run has reached.
func newFreshKeys() *freshKeys {
	f := &freshKeys{}
	f.last.Store(uint64(time.Now().UnixNano()))
	return f
}

func (f *freshKeys) next() uint64 { return f.last.Add(1) }
