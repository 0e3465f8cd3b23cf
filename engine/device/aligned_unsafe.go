package device

import (
	"math/bits"
	"unsafe"
)

// AlignedBuffer returns nBytes of zeroed memory whose address is a multiple of
// alignBytes, a power of two (anything else panics). The capacity equals the
// length. The memory is the Go heap's and lives as long as it is referenced.
func AlignedBuffer(nBytes, alignBytes int) []byte {
	if nBytes < 0 || alignBytes <= 0 || bits.OnesCount(uint(alignBytes)) != 1 {
		panic("device: AlignedBuffer needs a length of 0 or more and an alignment that is a power of two")
	}
	memory := make([]byte, nBytes+alignBytes-1)
	skip := 0
	if rest := int(addressOf(memory) & uintptr(alignBytes-1)); rest != 0 {
		skip = alignBytes - rest
	}
	return memory[skip : skip+nBytes : skip+nBytes]
}

// addressOf is the address of b's first byte; it means nothing if there is none.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
