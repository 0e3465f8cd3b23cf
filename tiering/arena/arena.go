package arena

import (
	"fmt"
	"sync"
)

// Options describe an arena.
type Options struct {
	// Bytes bounds the memory; what is no whole unit (256 KiB to 16 MiB, by
	// size) is left out. At least MinBytes.
	Bytes int64
	// Pages is the best kind of pages to ask for; worse ones are taken if the
	// machine refuses. "" means PagesHugeTLB.
	Pages Pages
	// Nodes are the NUMA nodes that the memory must come from; none: any.
	Nodes []int
}

// MinBytes is the smallest arena.
const MinBytes = hugePageBytes

// Arena is private memory of the node, cut into frames. All its memory is taken
// at the start and never grows. All methods may be called from many goroutines.
//
// Units of the arena are dealt out to frame sizes on demand: a slab of units is
// cut into equal frames and goes back when the last of them is free. So frames
// of any size lie densely, and no size keeps memory that it does not use. Where
// frames are held for long, whoever makes room for another size should free
// those of one slab (Frame.Slab) first.
type Arena struct {
	memory *memory
	pinned registrations

	mu     sync.Mutex
	units  units
	slabs  []slab        // by first unit
	open   map[int32]int // first slab with a free frame, by frame size; none: no key or nowhere
	frames int           // lent
	lent   int64         // bytes of them
	closed bool
}

// New takes the memory of an arena and populates it, which lasts seconds for
// many GiB. It fails if the machine has not that much, or not on these nodes;
// a worse kind of pages, or memory that could not be locked, is only noted in
// Facts.
func New(o Options) (*Arena, error) {
	size := max(unitSize(o.Bytes), hugePageBytes)
	nBytes := o.Bytes / size * size
	if nBytes < MinBytes {
		return nil, fmt.Errorf("%w: an arena of %d bytes; give at least %d", ErrSize, o.Bytes, MinBytes)
	}
	m, err := makeMemory(wish{nBytes: nBytes, best: o.Pages, nodes: o.Nodes})
	if err != nil {
		return nil, err
	}
	a := &Arena{memory: m, units: newUnits(nBytes), open: make(map[int32]int)}
	a.slabs = make([]slab, len(a.units.taken))
	return a, nil
}

// Facts say what the machine granted.
func (a *Arena) Facts() Facts { return a.memory.facts }

// FrameBytesMax is the largest frame that an empty arena has.
func (a *Arena) FrameBytesMax() int { return int(int64(a.units.most()) * a.units.sizeBytes) }

// Usage says where the memory of an arena is.
type Usage struct {
	TotalBytes int64 // of the arena
	Frames     int   // lent
	LentBytes  int64 // in those frames
	FreeBytes  int64 // open to frames of every size, as far as units lie together
}

// Usage is a snapshot. What is neither lent nor free is free for frames of the
// sizes in use only.
func (a *Arena) Usage() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Usage{TotalBytes: a.memory.facts.Bytes, Frames: a.frames, LentBytes: a.lent, FreeBytes: int64(a.units.free) * a.units.sizeBytes}
}

// Register makes all of the arena's memory known to r, in pieces of at most
// pieceBytes (UringPieceBytes, CUDAPieceBytes) that cut no frame: all of them or
// none. release undoes it, more than one call has no effect; what is not
// released by then, Close releases. Nothing may be in flight through r at that
// time.
func (a *Arena) Register(r Registrar, pieceBytes int64) (release func(), err error) {
	return a.pinned.add(a.memory.mem, r, pieceBytes)
}

// LeakError is what Close says while frames are lent.
type LeakError struct {
	Frames int
	Bytes  int64
}

func (e *LeakError) Error() string {
	return fmt.Sprintf("arena: %d frames of %d bytes in all were not released", e.Frames, e.Bytes)
}

// Close releases what is registered and gives the memory back. No frame may be
// lent: otherwise the answer is a *LeakError, no new frame is lent, and the
// memory stays as it is, registered and mapped, because a transfer may still go
// there; Close can be called again. A second Close of a closed arena answers
// ErrClosed.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.frames > 0 {
		return &LeakError{a.frames, a.lent}
	}
	if a.slabs == nil {
		return ErrClosed
	}
	a.slabs = nil
	a.pinned.close()
	a.memory.close()
	return nil
}
