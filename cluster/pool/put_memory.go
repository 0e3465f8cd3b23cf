package pool

import (
	"math/bits"
	"sync"

	"golang.org/x/sync/semaphore"
)

// putMemories are memory for arriving blocks, used again by Puts of about the same size.
var putMemories [512]sync.Pool

// putClass is the class of memory for so many bytes, at most 1<<40, and what
// one of that class takes: an eighth more at most, or up to the next 4 KiB.
func putClass(nBytes int) (class, takesBytes int) {
	nBytes = max(nBytes, 1)
	shift := max(12, bits.Len(uint(nBytes-1))-4)
	steps := (nBytes + 1<<shift - 1) >> shift // 1 to 16
	return (shift-12)*16 + steps - 1, steps << shift
}

// putMemory is memory to receive blocks into, page-aligned where it is large, until free.
func putMemory(nBytes int) (memory []byte, free func()) {
	class, takes := putClass(nBytes)
	kept, _ := putMemories[class].Get().(*[]byte)
	if kept == nil {
		made := make([]byte, takes)
		kept = &made
	}
	return (*kept)[:nBytes], func() { putMemories[class].Put(kept) }
}

// countedMemory is putMemory of which no more is out than bound has bytes; nil: there is none.
func countedMemory(bound *semaphore.Weighted, nBytes int) (memory []byte, free func()) {
	_, takes := putClass(nBytes)
	if !bound.TryAcquire(int64(takes)) {
		return nil, nil
	}
	memory, give := putMemory(nBytes)
	return memory, func() {
		give()
		bound.Release(int64(takes))
	}
}
