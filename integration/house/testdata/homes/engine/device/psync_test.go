package device

import (
	"syscall"
	"unsafe"
)

var _ = unsafe.Sizeof(syscall.EIO)
