package sim

import "unsafe"

// addressOf is where memory begins.
func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }
