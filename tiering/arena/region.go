package arena

import (
	"fmt"
	"sync"
)

// Region is mapped memory that a client can write to as well. Its methods may be
// called from many goroutines.
//
// Whoever moves bytes there holds the region from Acquire to Release; Close only
// says that nobody may begin any more, and the last Release unmaps. A client can
// take its memory away: whoever touches the bytes with the processor does so within
// fault.Guard, as the engine does. A system call on memory that is gone answers
// EFAULT by itself.
type Region struct {
	mem    []byte
	unmap  func()
	pinned registrations

	mu       sync.Mutex
	inFlight int
	closed   bool
	dropped  chan struct{} // closed when the memory is unmapped
}

func newRegion(mem []byte, unmap func()) *Region {
	return &Region{mem: mem, unmap: unmap, dropped: make(chan struct{})}
}

// Bytes is the region's size.
func (r *Region) Bytes() int64 { return int64(len(r.mem)) }

// Acquire begins a transfer, or a request of many: the memory stays mapped until
// Release. It answers ErrClosed after Close.
func (r *Region) Acquire() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.inFlight++
	return nil
}

// Release ends what Acquire began. One too many panics.
func (r *Region) Release() {
	r.mu.Lock()
	if r.inFlight == 0 {
		r.mu.Unlock()
		panic("arena: region released too often")
	}
	r.inFlight--
	last := r.closed && r.inFlight == 0
	r.mu.Unlock()
	if last {
		r.drop()
	}
}

// Slice is the memory at offset, of this length; an error matching ErrBounds if
// it is not within the region, or empty. The caller has acquired the region, and
// uses the slice until his Release at most.
func (r *Region) Slice(offset, length uint64) ([]byte, error) {
	size := uint64(len(r.mem))
	if length == 0 || offset > size || length > size-offset {
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", ErrBounds, length, offset, size)
	}
	return r.mem[offset : offset+length : offset+length], nil
}

// Register makes the region's memory known to g, as Arena.Register does. It is
// released before the memory is unmapped. The caller has acquired the region.
func (r *Region) Register(g Registrar, pieceBytes int64) (release func(), err error) {
	return r.pinned.add(r.mem, g, pieceBytes)
}

// Close lets nothing begin any more and returns at once. The memory is unmapped
// when nothing is in flight. More than one call has no effect.
func (r *Region) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	idle := r.inFlight == 0
	r.mu.Unlock()
	if idle && !again {
		r.drop()
	}
}

// Dropped is closed when the memory is unmapped: only then it no longer counts.
func (r *Region) Dropped() <-chan struct{} { return r.dropped }

// drop runs once, with nothing in flight.
func (r *Region) drop() {
	r.pinned.close()
	r.unmap()
	close(r.dropped)
}
