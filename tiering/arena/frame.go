package arena

// Frame is memory of an arena that belongs to those who hold a reference to it,
// and to a device for as long as a transfer with it is in flight. It is a handle:
// copies of it are the same frame. The zero Frame is none.
//
// Get gives the first reference. Who passes the frame on to another reader
// retains it for him; the frame goes back with the last Release. Every method
// panics on a frame that has gone back, even when its memory is lent anew.
type Frame struct {
	arena      *Arena
	offset     int64 // in the arena
	nBytes     int32 // asked for
	sizeBytes  int32 // taken
	slab       int32
	index      int32
	generation uint32
}

// Get lends a frame of nBytes, at an address that is a multiple of AlignBytes,
// with whatever was there before. It never waits: ErrFull when there is no room
// now, ErrSize when nBytes is not positive or over FrameBytesMax, ErrClosed. A
// length that was in use before costs no memory of the Go heap.
func (a *Arena) Get(nBytes int) (Frame, error) {
	if nBytes <= 0 || nBytes > a.FrameBytesMax() {
		return Frame{}, ErrSize
	}
	size := int32((nBytes + AlignBytes - 1) / AlignBytes * AlignBytes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return Frame{}, ErrClosed
	}
	first, ok := a.open[size]
	if !ok || first == nowhere {
		var err error
		if first, err = a.startSlabLocked(size); err != nil {
			return Frame{}, err
		}
	}
	index := a.popLocked(first)
	a.frames++
	a.lent += int64(size)
	state := &a.slabs[first].records[index].state
	free := state.Load()
	state.Store(free + 1)
	return Frame{
		arena: a, offset: int64(first)*a.units.sizeBytes + int64(index)*int64(size),
		nBytes: int32(nBytes), sizeBytes: size, slab: int32(first), index: index, generation: uint32(free >> 32),
	}, nil
}

// record is the state of the frame, which must be lent.
func (f Frame) record() *record {
	if f.arena == nil {
		panic("arena: no frame")
	}
	return &f.arena.slabs[f.slab].records[f.index]
}

func (f Frame) check(state uint64) {
	if uint32(state>>32) != f.generation || state&referencesMask == 0 {
		panic("arena: frame used after its release")
	}
}

// Bytes is the frame's memory: of the length asked for, with the length rounded
// up to AlignBytes as capacity. It must not be used after the holder's Release.
func (f Frame) Bytes() []byte {
	f.check(f.record().state.Load())
	return f.arena.memory.mem[f.offset:][:f.nBytes:f.sizeBytes]
}

// Valid reports whether f is a frame at all, not the zero Frame.
func (f Frame) Valid() bool { return f.arena != nil }

// Slab numbers the part of the arena that the frame lies in. That part is open to
// frames of other sizes again when all frames with this number have gone back.
func (f Frame) Slab() int { return int(f.slab) }

// Retain adds a reference, which wants a Release of its own.
func (f Frame) Retain() {
	state := &f.record().state
	for {
		now := state.Load()
		f.check(now)
		if state.CompareAndSwap(now, now+1) {
			return
		}
	}
}

// Release drops one reference; the last one gives the frame back. One too many
// panics.
func (f Frame) Release() {
	state := &f.record().state
	for {
		now := state.Load()
		f.check(now)
		then := now - 1
		if then&referencesMask == 0 {
			then += oneGeneration
		}
		if !state.CompareAndSwap(now, then) {
			continue
		}
		if then&referencesMask == 0 {
			f.arena.back(f)
		}
		return
	}
}

// back takes a frame without references.
func (a *Arena) back(f Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frames--
	a.lent -= int64(f.sizeBytes)
	a.pushLocked(int(f.slab), f.index)
}
