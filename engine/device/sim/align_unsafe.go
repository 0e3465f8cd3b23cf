package sim

import "unsafe"

// addressAligned reports whether b begins at a multiple of alignBytes.
func addressAligned(b []byte, alignBytes int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(alignBytes) == 0
}
