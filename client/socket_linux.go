package client

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendFrame sends a frame, with a descriptor if file is not nil.
func sendFrame(socket *net.UnixConn, frame []byte, file *os.File) error {
	if file == nil {
		_, err := socket.Write(frame)
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var sendErr error
	err = raw.Control(func(fd uintptr) { n, _, sendErr = socket.WriteMsgUnix(frame, unix.UnixRights(int(fd)), nil) })
	if err = errors.Join(err, sendErr); err != nil {
		return err
	}
	if n < len(frame) {
		_, err = socket.Write(frame[n:])
	}
	return err
}

// fileReader reads a socket and keeps the descriptors that come with the bytes,
// in order.
type fileReader struct {
	socket *net.UnixConn
	files  []*os.File
	oob    [64]byte
}

// Read implements io.Reader.
func (r *fileReader) Read(b []byte) (int, error) {
	n, oobn, _, _, err := r.socket.ReadMsgUnix(b, r.oob[:])
	n = max(n, 0) // -1 with an error
	if oobn > 0 {
		messages, parseErr := unix.ParseSocketControlMessage(r.oob[:oobn])
		if parseErr != nil {
			return n, parseErr
		}
		for i := range messages {
			fds, rightsErr := unix.ParseUnixRights(&messages[i])
			if rightsErr != nil {
				continue // no descriptors
			}
			for _, fd := range fds {
				r.files = append(r.files, os.NewFile(uintptr(fd), "region"))
			}
		}
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// take is the oldest descriptor, nil if there is none.
func (r *fileReader) take() *os.File {
	if len(r.files) == 0 {
		return nil
	}
	f := r.files[0]
	r.files = r.files[1:]
	return f
}

func (r *fileReader) close() {
	for _, f := range r.files {
		_ = f.Close()
	}
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

func mapFile(f *os.File, nBytes int64) ([]byte, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var mem []byte
	var mapErr error
	err = raw.Control(func(fd uintptr) {
		mem, mapErr = unix.Mmap(int(fd), 0, int(nBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	})
	return mem, errors.Join(err, os.NewSyscallError("mmap", mapErr))
}

func unmapFile(mem []byte) {
	if mem != nil {
		_ = unix.Munmap(mem) // it was mapped here
	}
}

// duplicate is another descriptor of the same file.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var number int
	var dupErr error
	err = raw.Control(func(fd uintptr) { number, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", dupErr)); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(number), f.Name()), nil
}
