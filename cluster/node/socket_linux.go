package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/cluster/wire/descriptor"
)

// Peer is who is at the other end of a Unix socket, as the kernel tells.
type Peer struct {
	PID int32  `json:"pid"` // of the process that connected
	UID uint32 `json:"uid"` // of its user
	GID uint32 `json:"gid"` // of its group
}

func peerOf(c *net.UnixConn) (p Peer, err error) {
	err = descriptor.With(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			p = Peer{cred.Pid, cred.Uid, cred.Gid}
		}
		return err
	})
	return p, err
}

const (
	// inboxBytes is what is read ahead: many small requests in one call.
	inboxBytes = 64 << 10
	// filesMax bounds descriptors that have come and are not used yet.
	filesMax = 4
)

// inbox reads frames and the descriptors that come with them.
type inbox struct {
	socket   *net.UnixConn
	buf      []byte
	from, to int // what is read and not taken
	files    []*os.File
	oob      []byte
}

func newInbox(socket *net.UnixConn) *inbox {
	return &inbox{socket: socket, buf: make([]byte, inboxBytes), oob: make([]byte, unix.CmsgSpace(filesMax*4))}
}

// next reads one frame. The body lies in memory of get (its first bytes) or, for
// none, is nil. io.EOF is an end between frames.
func (in *inbox) next(bodyBytesMax int, get func(n int) []byte) (h wire.Header, body []byte, err error) {
	for in.to-in.from < wire.HeaderBytes {
		if err := in.more(); err != nil {
			if err == io.EOF && in.to > in.from {
				err = io.ErrUnexpectedEOF
			}
			return h, nil, err
		}
	}
	if h, err = wire.ParseHeader(in.buf[in.from:], bodyBytesMax); err != nil {
		return h, nil, err
	}
	in.from += wire.HeaderBytes
	if h.BodyBytes == 0 {
		return h, nil, nil
	}
	body = get(int(h.BodyBytes))
	n := copy(body, in.buf[in.from:in.to])
	in.from += n
	for n < len(body) {
		got, err := in.read(body[n:])
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return h, body, err
		}
		n += got
	}
	return h, body, nil
}

// more reads ahead.
func (in *inbox) more() error {
	if in.from > 0 {
		in.to = copy(in.buf, in.buf[in.from:in.to])
		in.from = 0
	}
	n, err := in.read(in.buf[in.to:])
	in.to += n
	return err
}

// read is one call of recvmsg. It keeps the descriptors that came along.
func (in *inbox) read(b []byte) (int, error) {
	n, oobn, flags, _, err := in.socket.ReadMsgUnix(b, in.oob)
	n = max(n, 0) // -1 with an error
	if oobn > 0 {
		if keepErr := in.keep(in.oob[:oobn]); keepErr != nil {
			return n, keepErr
		}
	}
	switch {
	case err != nil:
		return n, err
	case flags&unix.MSG_CTRUNC != 0:
		return n, fmt.Errorf("%w: more than %d descriptors at once", wire.ErrMalformed, filesMax)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (in *inbox) keep(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("%w: control message: %w", wire.ErrMalformed, err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // no descriptors
		}
		for _, fd := range fds {
			in.files = append(in.files, os.NewFile(uintptr(fd), "region"))
		}
	}
	if len(in.files) > filesMax {
		return fmt.Errorf("%w: %d descriptors that no request takes", wire.ErrMalformed, len(in.files))
	}
	return nil
}

// takeFile is the oldest descriptor that came, nil if there is none.
func (in *inbox) takeFile() *os.File {
	if len(in.files) == 0 {
		return nil
	}
	f := in.files[0]
	in.files = in.files[1:]
	return f
}

// close drops descriptors that nobody took.
func (in *inbox) close() {
	for _, f := range in.files {
		_ = f.Close()
	}
	in.files = nil
}

// populated reports whether a client's file has all its pages. Pinning one that has
// not would fill the machine's memory on our account.
func populated(f *os.File, length uint64) bool {
	var stat unix.Stat_t
	err := descriptor.With(f, func(fd int) error { return unix.Fstat(fd, &stat) })
	return err == nil && stat.Blocks >= 0 && uint64(stat.Blocks)*512 >= length
}

// hungUp reports whether the other end of a socket is closed. What it has sent
// stays to be read.
func hungUp(c *net.UnixConn) bool {
	happened := 0
	err := descriptor.With(c, func(fd int) (err error) {
		happened, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
		return err
	})
	return happened > 0 || err != nil && !errors.Is(err, unix.EINTR)
}

// rights packs a descriptor to be sent.
func rights(f *os.File) []byte { return unix.UnixRights(int(f.Fd())) }

// machineMemory is the memory of the machine, in bytes.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 64 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}
