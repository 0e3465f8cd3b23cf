package offheap

import "unsafe"

// view reads mapped as n items of T. mapped starts on a page boundary, which
// is enough alignment for every T, and holds at least n items; T has no
// pointers.
func view[T any](mapped []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapped))), n)
}
