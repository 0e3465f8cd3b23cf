package iouring

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layouts are the kernel's: a changed size does not compile.
var (
	_ [64]byte   = [unsafe.Sizeof(SQE{})]byte{}
	_ [16]byte   = [unsafe.Sizeof(CQE{})]byte{}
	_ [120]byte  = [unsafe.Sizeof(Params{})]byte{}
	_ [32]byte   = [unsafe.Sizeof(rsrcRegister{})]byte{}
	_ [32]byte   = [unsafe.Sizeof(rsrcUpdate{})]byte{}
	_ [16]byte   = [unsafe.Sizeof(filesUpdate{})]byte{}
	_ [2064]byte = [unsafe.Sizeof(probe{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(getEventsArg{})]byte{}
)

// Calls are the system calls of io_uring, so that tests can refuse, cut and
// count them. EnterWait is Enter that waits for one completion, up to limit.
type Calls struct {
	Setup     func(entries uint32, p *Params) (fd int, errno syscall.Errno)
	Enter     func(fd int, submit, wait, flags uint32) (submitted int, errno syscall.Errno)
	EnterWait func(fd int, submit uint32, limit time.Duration) (submitted int, errno syscall.Errno)
	Register  func(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno
}

// Kernel are the real calls.
var Kernel = Calls{Setup: setup, Enter: enter, EnterWait: enterWait, Register: register}

// getEventsArg is 24 bytes as the kernel reads them (frozen).
type getEventsArg struct {
	signals      uint64 // pointer to a mask; 0 for none
	signalsBytes uint32
	_            uint32
	limit        *unix.Timespec
}

func setup(entries uint32, p *Params) (int, syscall.Errno) {
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), 0
}

func enter(fd int, submit, wait, flags uint32) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(wait), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func enterWait(fd int, submit uint32, limit time.Duration) (int, syscall.Errno) {
	var arg getEventsArg
	if limit >= 0 {
		ts := unix.NsecToTimespec(limit.Nanoseconds())
		arg.limit = &ts
	}
	n, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), 1, enterGetEvents|enterExtArg,
		uintptr(unsafe.Pointer(&arg)), unsafe.Sizeof(arg))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func register(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
	_, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), uintptr(opcode), uintptr(arg), uintptr(n), 0, 0)
	return errno
}
