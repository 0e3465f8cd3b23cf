package iouring

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Opcodes of io_uring_register (frozen).
const (
	registerFiles         = 2
	unregisterFiles       = 3
	unregisterBuffers     = 1
	registerEventfd       = 4
	registerFilesUpdate   = 6
	registerProbe         = 8
	registerBuffers2      = 15
	registerBuffersUpdate = 16

	rsrcSparse  = 1 << 0 // of registerBuffers2: a table of empty places
	opSupported = 1 << 0 // of probeOp.flags
)

// BufferBytesMax is the kernel's bound on one registered buffer.
const BufferBytesMax = 1 << 30

type probeOp struct {
	op    uint8
	_     uint8
	flags uint16
	_     uint32
}

type probe struct {
	lastOp, opsLen uint8
	_              uint16
	_              [3]uint32
	ops            [256]probeOp
}

// The pointers below are 64 bits wide in the kernel's eyes, so this package is
// for 64-bit machines. As pointers they keep what they name on the heap.

type filesUpdate struct {
	offset, _ uint32
	fds       *int32
}

type rsrcRegister struct {
	n, flags   uint32
	_          uint64
	data, tags uint64
}

type rsrcUpdate struct {
	offset, _ uint32
	data      *unix.Iovec
	tags      uint64
	n, _      uint32
}

// needed are the operations that every ring must have.
var needed = []uint8{OpNop, OpReadv, OpWritev, OpFsync, OpReadFixed, OpWriteFixed, OpFallocate, OpRead, OpWrite}

// checkOperations asks the kernel which operations it has.
func (r *Ring) checkOperations() error {
	p := new(probe)
	if errno := r.calls.Register(r.fd, registerProbe, unsafe.Pointer(p), uint32(len(p.ops))); errno == syscall.EINVAL {
		return fmt.Errorf("%w: it does not tell its operations", ErrOld)
	} else if errno != 0 {
		return &Error{"io_uring_register (probe)", errno}
	}
	for _, op := range needed {
		if op > p.lastOp || p.ops[op].flags&opSupported == 0 {
			return fmt.Errorf("%w: operation %d is missing", ErrOld, op)
		}
	}
	return nil
}

// registerEvent makes the eventfd that every completion raises.
func (r *Ring) registerEvent() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return &Error{"eventfd", err.(syscall.Errno)}
	}
	r.event = os.NewFile(uintptr(fd), "eventfd") // a non-blocking one goes to the poller
	number := int32(fd)
	if errno := r.calls.Register(r.fd, registerEventfd, unsafe.Pointer(&number), 1); errno != 0 {
		return &Error{"io_uring_register (eventfd)", errno}
	}
	return nil
}

// Wait blocks the goroutine, not its thread, until a completion has come or
// Wake was called since the last Wait.
func (r *Ring) Wait() error {
	var count [8]byte
	_, err := r.event.Read(count[:])
	return err
}

// Wake ends a Wait.
func (r *Ring) Wake() error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := r.event.Write(one[:])
	return err
}

// RegisterFiles makes a table of n places for files, all empty. The kernel
// reads 32-bit descriptors.
func (r *Ring) RegisterFiles(n int) error {
	fds := make([]int32, n)
	for i := range fds {
		fds[i] = -1
	}
	return asError("io_uring_register (files)", r.calls.Register(r.fd, registerFiles, unsafe.Pointer(&fds[0]), uint32(n)))
}

// SetFile puts fd into the table, or empties the place for -1. A file in the
// table stays open in the kernel until its place is emptied, the table is
// unregistered, or the last request of a ring without a process has ended.
func (r *Ring) SetFile(place, fd int) error {
	number := int32(fd)
	u := &filesUpdate{offset: uint32(place), fds: &number}
	return asError("io_uring_register (file update)", r.calls.Register(r.fd, registerFilesUpdate, unsafe.Pointer(u), 1))
}

// UnregisterFiles drops the table and with it the kernel's hold on its files.
func (r *Ring) UnregisterFiles() error {
	return asError("io_uring_register (unregister files)", r.calls.Register(r.fd, unregisterFiles, nil, 0))
}

// RegisterBuffers makes a table of n places for buffers, all empty.
func (r *Ring) RegisterBuffers(n int) error {
	t := &rsrcRegister{n: uint32(n), flags: rsrcSparse}
	return asError("io_uring_register (buffers)", r.calls.Register(r.fd, registerBuffers2, unsafe.Pointer(t), uint32(unsafe.Sizeof(*t))))
}

// SetBuffer pins mem, at most BufferBytesMax, and puts it into the table; nil
// empties the place.
func (r *Ring) SetBuffer(place int, mem []byte) error {
	var piece unix.Iovec
	if len(mem) > 0 {
		piece.Base = unsafe.SliceData(mem)
		piece.SetLen(len(mem))
	}
	u := &rsrcUpdate{offset: uint32(place), data: &piece, n: 1}
	return asError("io_uring_register (buffer update)",
		r.calls.Register(r.fd, registerBuffersUpdate, unsafe.Pointer(u), uint32(unsafe.Sizeof(*u))))
}

// UnregisterBuffers drops the table and unpins its memory.
func (r *Ring) UnregisterBuffers() error {
	return asError("io_uring_register (unregister buffers)", r.calls.Register(r.fd, unregisterBuffers, nil, 0))
}

func asError(call string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return &Error{call, errno}
}
