package device

import (
	"math/bits"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// load describes the memory from c on to the kernel, in v's own memory.
func (v *vector) load(c cursor, bytesMax int) (pieces []unix.Iovec, nBytes int) {
	return appendPieces(v.pieces[:0], c, bytesMax)
}

// appendPieces describes the memory from c on to the kernel: up to bytesMax
// bytes, up to iovMax pieces, empty ones left out. dst is empty.
func appendPieces(dst []unix.Iovec, c cursor, bytesMax int) (pieces []unix.Iovec, nBytes int) {
	within := c.within
	for _, b := range c.bufs {
		b = b[within:]
		within = 0
		b = b[:min(len(b), bytesMax-nBytes)]
		if len(b) == 0 {
			continue
		}
		piece := unix.Iovec{Base: unsafe.SliceData(b)}
		piece.SetLen(len(b))
		dst = append(dst, piece)
		nBytes += len(b)
		if len(dst) == iovMax || nBytes == bytesMax {
			break
		}
	}
	return dst, nBytes
}

func preadv(fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno) {
	return positioned(unix.SYS_PREADV, fd, pieces, offset)
}

func pwritev(fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno) {
	return positioned(unix.SYS_PWRITEV, fd, pieces, offset)
}

// positioned makes the system call without an allocation. pieces is not empty
// and lives on the heap, as does all the memory it points to.
func positioned(number uintptr, fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno) {
	low, high := uintptr(offset), uintptr(uint64(offset)>>32>>(bits.UintSize-32))
	n, _, errno := syscall.Syscall6(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(pieces))), uintptr(len(pieces)), low, high, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
