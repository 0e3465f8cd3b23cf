//go:build verbs && linux && cgo

package verbs

import "unsafe"

// addressOf is where memory outside the Go heap lies.
func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
