package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// piecesMax is how many pieces one system call takes.
const piecesMax = 512

// direct moves bytes between a socket and memory of others, without a copy of ours. Its
// calls never wait with the memory in use. One goroutine reads and one writes.
type direct struct {
	raw      syscall.RawConn
	in, out  [][]byte
	zeros    []byte
	readCall func(fd uintptr) bool
	reading  struct {
		m         *memory
		offset, n int
		ahead     []byte
		got       int
		err       error
	}
	writeCall func(fd uintptr) bool
	writing   struct {
		remainder
		m      *memory
		filler bool
		put    int
		err    error
	}
}

func newDirect(c *net.TCPConn) (*direct, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := &direct{raw: raw}
	d.readCall, d.writeCall = d.readNow, d.writeNow
	return d, nil
}

// read waits until there are bytes and reads once: up to n into m at offset, and what
// comes behind them into ahead. It may return errWithdrawn, or an error for which isFault
// holds: nothing was read then. The end of the stream is io.ErrUnexpectedEOF.
func (d *direct) read(m *memory, offset, n int, ahead []byte) (int, error) {
	r := &d.reading
	r.m, r.offset, r.n, r.ahead, r.got, r.err = m, offset, n, ahead, 0, nil
	err := d.raw.Read(d.readCall)
	r.m = nil
	if err == nil {
		err = r.err
	}
	return r.got, err
}

func (d *direct) readNow(fd uintptr) bool {
	r := &d.reading
	if !r.m.use() {
		r.err = errWithdrawn
		return true
	}
	defer r.m.leave()
	iov, n := r.m.window(d.in[:0], r.offset, r.n, piecesMax)
	if n == r.n {
		iov = append(iov, r.ahead)
	}
	got, err := unix.Readv(int(fd), iov)
	clear(iov)
	d.in = iov[:0]
	switch {
	case err == unix.EAGAIN:
		return false
	case err == unix.EINTR: // nothing was read; the caller asks again
	case err != nil:
		r.err = err
	case got == 0:
		r.err = io.ErrUnexpectedEOF
	default:
		r.got = got
	}
	return true
}

// remainder is what is still to be written of a frame: head, n bytes of a memory from
// offset on, tail.
type remainder struct {
	head      []byte
	offset, n int
	tail      []byte
}

// write writes of a frame as much as the socket takes at once or, if it takes none, once
// it does. With filler zeros go in place of the memory. Errors as those of read.
func (d *direct) write(r remainder, m *memory, filler bool) (int, error) {
	w := &d.writing
	w.remainder, w.m, w.filler, w.put, w.err = r, m, filler, 0, nil
	err := d.raw.Write(d.writeCall)
	w.m = nil
	if err == nil {
		err = w.err
	}
	return w.put, err
}

func (d *direct) writeNow(fd uintptr) bool {
	w := &d.writing
	iov, n := append(d.out[:0], w.head), 0
	switch {
	case w.n == 0:
	case w.filler:
		if d.zeros == nil {
			d.zeros = make([]byte, wasteBytes)
		}
		n = min(w.n, len(d.zeros))
		iov = append(iov, d.zeros[:n])
	case !w.m.use():
		w.err = errWithdrawn
		return true
	default:
		defer w.m.leave()
		iov, n = w.m.window(iov, w.offset, w.n, piecesMax)
	}
	if n == w.n {
		iov = append(iov, w.tail)
	}
	put, err := unix.Writev(int(fd), iov)
	clear(iov)
	d.out = iov[:0]
	switch {
	case err == unix.EAGAIN:
		return false
	case err == unix.EINTR:
	case err != nil:
		w.err = err
	default:
		w.put = put
	}
	return true
}

// isFault reports whether an error says that memory is not there.
func isFault(err error) bool { return errors.Is(err, syscall.EFAULT) }

// Errors of one block of a Push; both match syscall.EFAULT.
var (
	errSourceGone      = fmt.Errorf("the sender's memory is gone: %w", syscall.EFAULT)
	errDestinationGone = fmt.Errorf("the memory to receive into is gone: %w", syscall.EFAULT)
)
