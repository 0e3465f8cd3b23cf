package device

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ = unsafe.Sizeof(unix.EIO == syscall.EIO)
