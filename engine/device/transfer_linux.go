package device

import (
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	callBytesMax = 1 << 30 // per system call; the kernel's own bound is just below 2 GiB
	iovMax       = 1024    // pieces per system call (IOV_MAX)
	zerosBytes   = 1 << 20
)

// vectorCalls are the two system calls of a transfer and their bound, so that
// tests can cut, fail and interrupt them.
type vectorCalls struct {
	readv, writev func(fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno)
	bytesMax      int
}

var kernelCalls = vectorCalls{readv: preadv, writev: pwritev, bytesMax: callBytesMax}

// vector is the scratch memory of one worker.
type vector struct{ pieces [iovMax]unix.Iovec }

// run carries out op.
func (v *vector) run(op *Op, f *file) (int, error) {
	switch {
	case f.f == nil: // of the null device
		return op.bytes(), nil
	case op.Kind == Read || op.Kind == Write:
		return v.transfer(op.Kind, f, op.Offset, op.Bufs)
	case op.Kind == Sync:
		for {
			err := unix.Fdatasync(f.fd)
			if err == nil {
				return 0, nil
			}
			if err != syscall.EINTR {
				return 0, pathError("fdatasync", f.name, err)
			}
		}
	default:
		return v.punch(f, op.Offset, op.LengthBytes)
	}
}

// transfer moves all of bufs, in as many system calls as it takes, and returns
// how many bytes moved and why not more.
func (v *vector) transfer(kind Kind, f *file, offset int64, bufs [][]byte) (n int, err error) {
	defer clear(v.pieces[:min(len(bufs), iovMax)]) // hold no memory of the caller
	call, what := f.d.calls.readv, "preadv"
	if kind == Write {
		call, what = f.d.calls.writev, "pwritev"
	}
	align := f.d.facts.OffsetAlignBytes
	at := cursor{bufs: bufs}
	for {
		pieces, askedBytes := v.load(at, f.d.calls.bytesMax)
		if askedBytes == 0 {
			return n, nil
		}
		moved, errno := call(f.fd, pieces, offset+int64(n))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return n, pathError(what, f.name, errno)
		case moved == 0 && kind == Read:
			return n, io.ErrUnexpectedEOF
		case moved == 0:
			return n, pathError(what, f.name, io.ErrShortWrite)
		}
		n += moved
		at = at.advance(moved)
		if moved < askedBytes && moved%align != 0 {
			return n, oddCount(kind, what, f, offset+int64(n))
		}
	}
}

// oddCount explains a transfer that stopped in the middle of a block, at end:
// going on from there would not be aligned.
func oddCount(kind Kind, what string, f *file, end int64) error {
	if kind == Read {
		info, err := f.f.Stat()
		if err != nil {
			return err
		}
		if end >= info.Size() {
			return io.ErrUnexpectedEOF
		}
	}
	return pathError(what, f.name, fmt.Errorf("stopped within a block, at byte %d: %w", end, syscall.EIO))
}

// punch makes a range read as zeros, where possible without keeping its space.
func (v *vector) punch(f *file, offset, lengthBytes int64) (int, error) {
	if lengthBytes == 0 {
		return 0, nil
	}
	if !f.d.punch {
		_, err := v.zero(f, offset, lengthBytes)
		return 0, err
	}
	for {
		err := unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, lengthBytes)
		if err == nil {
			return 0, nil
		}
		if err != syscall.EINTR {
			return 0, pathError("fallocate", f.name, err)
		}
	}
}

// zero overwrites an aligned range with zeros.
func (v *vector) zero(f *file, offset, lengthBytes int64) (int64, error) {
	var done int64
	bufs := make([][]byte, 1)
	for done < lengthBytes {
		bufs[0] = f.d.zeros[:min(lengthBytes-done, int64(len(f.d.zeros)))]
		n, err := v.transfer(Write, f, offset+done, bufs)
		done += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// cursor is a place in a list of pieces.
type cursor struct {
	bufs   [][]byte // those from the current one on
	within int      // bytes of the current one that are done
}

func (c cursor) advance(nBytes int) cursor {
	c.within += nBytes
	for len(c.bufs) > 0 && c.within >= len(c.bufs[0]) {
		c.within -= len(c.bufs[0])
		c.bufs = c.bufs[1:]
	}
	return c
}

// atEnd: nothing is left, not even empty pieces, which advance skips.
func (c cursor) atEnd() bool { return len(c.bufs) == 0 }
