package client

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/wire/descriptor"
)

// sendFrame sends a frame, with a descriptor if file is not nil.
func sendFrame(socket *net.UnixConn, frame []byte, file *os.File) error {
	if file == nil {
		_, err := socket.Write(frame)
		return err
	}
	n := 0
	err := descriptor.With(file, func(fd int) (err error) {
		n, _, err = socket.WriteMsgUnix(frame, unix.UnixRights(fd), nil)
		return err
	})
	if err == nil && n < len(frame) {
		_, err = socket.Write(frame[n:])
	}
	return err
}

// makeMemory is a sealed memfd of so many bytes.
func makeMemory(nBytes int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("spillway-region", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "spillway-region")
	// With its pages: the daemon pins only what is there.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, nBytes); err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("fallocate", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("fcntl F_ADD_SEALS", err)
	}
	return f, nil
}

func mapFile(f *os.File, nBytes int64) (mem []byte, err error) {
	err = descriptor.With(f, func(fd int) (err error) {
		mem, err = unix.Mmap(fd, 0, int(nBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return os.NewSyscallError("mmap", err)
	})
	return mem, err
}

func unmapFile(mem []byte) {
	if mem != nil {
		_ = unix.Munmap(mem) // it was mapped here
	}
}
