package arena

import (
	"math"
	"sync/atomic"
)

// run is some chunks in a row that are cut into frames of one size. It is known
// by its first chunk. Guarded by Arena.mu, but for the states in records.
type run struct {
	frameBytes   int32
	chunks       int32
	frames       int32 // that it is cut into
	cut          int32 // frames from here on were never lent
	used         int32 // frames lent
	free         int32 // first of those that came back, or nowhere
	before, next int   // other runs of this frame size with a free frame, or nowhere
	// records of the frames, kept from one use of the chunk to the next: a frame
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

// startRunLocked deals chunks out to a frame size. It answers ErrFull if there
// is no run that holds a frame.
func (a *Arena) startRunLocked(frameBytes int32) (int, error) {
	least, best := a.chunks.lengths(int64(frameBytes))
	for n := best; n >= least; n-- {
		first := a.chunks.take(n)
		if first < 0 {
			continue
		}
		r := &a.runs[first]
		frames := int(int64(n) * a.chunks.sizeBytes / int64(frameBytes))
		*r = run{frameBytes: frameBytes, chunks: int32(n), frames: int32(frames), free: nowhere, records: grown(r.records, frames)}
		a.linkLocked(first)
		return first, nil
	}
	return 0, ErrFull
}

// grown is records, at least n of them. It allocates only when a chunk holds
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

// popLocked lends a frame of a run that has one.
func (a *Arena) popLocked(first int) (slot int32) {
	r := &a.runs[first]
	if r.free != nowhere {
		slot = r.free
		r.free = r.records[slot].next
	} else {
		slot = r.cut
		r.cut++
	}
	r.used++
	if r.used == r.frames {
		a.unlinkLocked(first)
	}
	return slot
}

// pushLocked takes a frame back. The frame that came back last is lent first: it
// is the likeliest to be in a cache. So is the run that was full last: the
// emptier ones get a chance to become free.
func (a *Arena) pushLocked(first int, slot int32) {
	r := &a.runs[first]
	r.records[slot].next, r.free = r.free, slot
	if r.used == r.frames {
		a.linkLocked(first)
	}
	r.used--
	if r.used == 0 {
		a.unlinkLocked(first)
		a.chunks.give(first, int(r.chunks))
	}
}

func (a *Arena) linkLocked(first int) {
	r := &a.runs[first]
	r.before, r.next = nowhere, nowhere
	if head, ok := a.open[r.frameBytes]; ok && head != nowhere {
		r.next = head
		a.runs[head].before = first
	}
	a.open[r.frameBytes] = first
}

func (a *Arena) unlinkLocked(first int) {
	r := &a.runs[first]
	if r.next != nowhere {
		a.runs[r.next].before = r.before
	}
	if r.before != nowhere {
		a.runs[r.before].next = r.next
	} else {
		a.open[r.frameBytes] = r.next
	}
}
