// Package frame is the bounded private memory through which transfers go that
// cannot go straight to the caller: unaligned, bounced and shared ones. The
// memory lies outside the Go heap and starts on a 4 KiB boundary, so that a
// device may read and write it directly.
package frame

import (
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// AlignBytes is the alignment of a frame's address and of the size that it
// takes from the pool.
const AlignBytes = 4096

// Pool hands out frames. All mapped memory together, in frames and kept for
// reuse, never exceeds the pool's bound. All methods may be called from many
// goroutines.
//
// A caller that has to wait takes the notification first and tries then, so
// that no return between the two is missed:
//
//	for {
//		returned := pool.Notify()
//		if f := pool.TryGet(n); f != nil {
//			return f
//		}
//		select {
//		case <-returned:
//		case <-deadline.C:
//			return nil
//		}
//	}
//
// Every waiter wakes at every return and tries again; who wins is open.
type Pool struct {
	totalBytes int64

	mu         sync.Mutex
	inUse      int
	inUseBytes int64
	keptBytes  int64                          // inUseBytes + keptBytes <= totalBytes
	kept       map[int][]*offheap.Array[byte] // for reuse, by size; no empty lists
	returned   chan struct{}                  // closed at the next return; nil if nobody asked
	freed      bool
}

// Frame is memory lent by a Pool. It belongs to the one who got it until
// Release, and to a device for as long as a transfer with it is in flight. Its
// methods do not synchronise with each other.
type Frame struct {
	pool   *Pool
	mem    *offheap.Array[byte] // nil after Release
	nBytes int
}

// NewPool makes a pool of at most totalBytes, rounded down to 4 KiB. No memory
// is taken yet.
func NewPool(totalBytes int64) (*Pool, error) {
	totalBytes -= totalBytes % AlignBytes
	if totalBytes < AlignBytes {
		return nil, fmt.Errorf("frame: pool of %d bytes, want at least %d", totalBytes, AlignBytes)
	}
	return &Pool{totalBytes: totalBytes, kept: make(map[int][]*offheap.Array[byte])}, nil
}

// TryGet lends a frame of nBytes, or returns nil when the bound is reached. It
// never waits. The content is whatever was there before. It panics if nBytes is
// not positive or could never fit, so that nobody waits for it forever.
//
// Nil while InUse is 0 means that the system refused the memory: then there is
// no return to wait for.
func (p *Pool) TryGet(nBytes int) *Frame {
	if nBytes <= 0 || int64(nBytes) > p.totalBytes {
		panic(fmt.Sprintf("frame: %d bytes from a pool of %d", nBytes, p.totalBytes))
	}
	sizeBytes := (nBytes + AlignBytes - 1) / AlignBytes * AlignBytes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freed {
		panic("frame: TryGet after Free")
	}
	if p.inUseBytes+int64(sizeBytes) > p.totalBytes {
		return nil
	}
	mem := p.takeLocked(sizeBytes)
	if mem == nil {
		return nil
	}
	p.inUse++
	p.inUseBytes += int64(sizeBytes)
	return &Frame{pool: p, mem: mem, nBytes: nBytes}
}

// takeLocked finds memory for which the frames in use leave room: kept memory
// of this size or, after trimming kept memory of other sizes if it must, new.
func (p *Pool) takeLocked(sizeBytes int) *offheap.Array[byte] {
	if len(p.kept[sizeBytes]) > 0 {
		return p.takeKeptLocked(sizeBytes)
	}
	for p.inUseBytes+p.keptBytes+int64(sizeBytes) > p.totalBytes {
		p.trimLocked()
	}
	mem, err := offheap.Make[byte](sizeBytes)
	if err != nil && p.keptBytes > 0 {
		for p.keptBytes > 0 {
			p.trimLocked()
		}
		mem, err = offheap.Make[byte](sizeBytes)
	}
	if err != nil {
		return nil
	}
	return mem
}

// takeKeptLocked takes the memory of this size that came back last, which is
// the likeliest to be in a cache.
func (p *Pool) takeKeptLocked(sizeBytes int) *offheap.Array[byte] {
	list := p.kept[sizeBytes]
	mem := list[len(list)-1]
	list[len(list)-1] = nil
	if list = list[:len(list)-1]; len(list) == 0 {
		delete(p.kept, sizeBytes)
	} else {
		p.kept[sizeBytes] = list
	}
	p.keptBytes -= int64(sizeBytes)
	return mem
}

// trimLocked gives one piece of kept memory back to the system, of the largest
// size, which makes the most room. The caller knows that there is one.
func (p *Pool) trimLocked() {
	largest := 0
	for sizeBytes := range p.kept {
		largest = max(largest, sizeBytes)
	}
	p.takeKeptLocked(largest).Free()
}

// Notify returns a channel that is closed at the next Release of any frame.
func (p *Pool) Notify() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.returned == nil {
		p.returned = make(chan struct{})
	}
	return p.returned
}

// TotalBytes is the pool's bound.
func (p *Pool) TotalBytes() int64 { return p.totalBytes }

// InUse is the number of frames lent.
func (p *Pool) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// InUseBytes is the memory of the frames lent, each rounded up to 4 KiB.
func (p *Pool) InUseBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUseBytes
}

// Free gives all memory back. It panics while a frame is lent. The pool is
// dead: TryGet panics.
func (p *Pool) Free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse > 0 {
		panic(fmt.Sprintf("frame: pool freed with %d frames in use", p.inUse))
	}
	for p.keptBytes > 0 {
		p.trimLocked()
	}
	p.freed = true
}

// Bytes is the frame's memory: of the length asked for, with the rounded length
// as capacity, at an address that is a multiple of 4096. It must not be used
// after Release; Bytes itself panics then.
func (f *Frame) Bytes() []byte {
	if f.mem == nil {
		panic("frame: used after Release")
	}
	return f.mem.Slice()[:f.nBytes]
}

// Release returns the frame to its pool and wakes all who wait. It panics the
// second time.
func (f *Frame) Release() {
	p := f.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	mem := f.mem
	if mem == nil {
		panic("frame: released twice")
	}
	f.mem = nil
	poison(mem.Slice())
	sizeBytes := len(mem.Slice())
	p.kept[sizeBytes] = append(p.kept[sizeBytes], mem)
	p.keptBytes += int64(sizeBytes)
	p.inUse--
	p.inUseBytes -= int64(sizeBytes)
	if p.returned != nil {
		close(p.returned)
		p.returned = nil
	}
}
