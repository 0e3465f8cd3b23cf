package device

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ = unsafe.Sizeof(unix.EIO)
