package iouring

import (
	"syscall"
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
)

// Calls are the three system calls of io_uring, so that tests can refuse,
// cut and count them.
type Calls struct {
	Setup    func(entries uint32, p *Params) (fd int, errno syscall.Errno)
	Enter    func(fd int, submit, wait, flags uint32) (submitted int, errno syscall.Errno)
	Register func(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno
}

// Kernel are the real calls.
var Kernel = Calls{Setup: setup, Enter: enter, Register: register}

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

func register(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
	_, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), uintptr(opcode), uintptr(arg), uintptr(n), 0, 0)
	return errno
}
