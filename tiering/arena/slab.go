package arena

import (
	"math"
	"sync/atomic"
)

// slab is some units in a row that are cut into frames of one size. It is known
// by its first unit. Guarded by Arena.mu, but for the states in records.
type slab struct {
	frameBytes   int32
	units        int32
	frames       int32 // that it is cut into
	cut          int32 // frames from here on were never lent
	used         int32 // frames lent
	free         int32 // first of those that came back, or nowhere
	before, next int   // other slabs of this frame size with a free frame, or nowhere
	// records of the frames, kept from one use of the unit to the next: a frame
	// of an earlier use is told by its generation.
	records []record
}

// nowhere ends a list.
const nowhere = -1

// record is the state of one frame.
type record struct {
	state atomic.Uint64 // generation << 32 | references
	next  int32         // free frame behind this one; guarded by Arena.mu
}

const (
	oneGeneration  = 1 << 32
	referencesMask = math.MaxUint32
)

// startSlabLocked deals units out to a frame size. It answers ErrFull if there
// is no slab that holds a frame.
func (a *Arena) startSlabLocked(frameBytes int32) (int, error) {
	least, best := a.units.lengths(int64(frameBytes))
	for n := best; n >= least; n-- {
		first := a.units.take(n)
		if first < 0 {
			continue
		}
		r := &a.slabs[first]
		frames := int(int64(n) * a.units.sizeBytes / int64(frameBytes))
		*r = slab{frameBytes: frameBytes, units: int32(n), frames: int32(frames), free: nowhere, records: grown(r.records, frames)}
		a.linkLocked(first)
		return first, nil
	}
	return 0, ErrFull
}

// grown is records, at least n of them. It allocates only when a unit holds
// more frames than ever before.
func grown(records []record, n int) []record {
	if n <= len(records) {
		return records
	}
	more := make([]record, n)
	for i := range records { // their generations go on
		more[i].state.Store(records[i].state.Load())
	}
	return more
}

// popLocked lends a frame of a slab that has one.
func (a *Arena) popLocked(first int) (index int32) {
	r := &a.slabs[first]
	if r.free != nowhere {
		index = r.free
		r.free = r.records[index].next
	} else {
		index = r.cut
		r.cut++
	}
	r.used++
	if r.used == r.frames {
		a.unlinkLocked(first)
	}
	return index
}

// pushLocked takes a frame back. The frame that came back last is lent first: it
// is the likeliest to be in a cache. So is the slab that was full last: the
// emptier ones get a chance to become free.
func (a *Arena) pushLocked(first int, index int32) {
	r := &a.slabs[first]
	r.records[index].next, r.free = r.free, index
	if r.used == r.frames {
		a.linkLocked(first)
	}
	r.used--
	if r.used == 0 {
		a.unlinkLocked(first)
		a.units.give(first, int(r.units))
	}
}

func (a *Arena) linkLocked(first int) {
	r := &a.slabs[first]
	r.before, r.next = nowhere, nowhere
	if head, ok := a.open[r.frameBytes]; ok && head != nowhere {
		r.next = head
		a.slabs[head].before = first
	}
	a.open[r.frameBytes] = first
}

func (a *Arena) unlinkLocked(first int) {
	r := &a.slabs[first]
	if r.next != nowhere {
		a.slabs[r.next].before = r.before
	}
	if r.before != nowhere {
		a.slabs[r.before].next = r.next
	} else {
		a.open[r.frameBytes] = r.next
	}
}
