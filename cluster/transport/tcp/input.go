package tcp

import (
	"io"
	"net"
	"sync/atomic"
)

// Sizes of what is read ahead: a connection of blocks needs little more than the next
// header, since blocks go past it.
const (
	aheadCallsBytes  = 64 << 10
	aheadBlocksBytes = 4 << 10
	wasteBytes       = 64 << 10
)

// input reads frames. Only one goroutine uses it.
type input struct {
	conn     net.Conn
	direct   *direct // nil with TLS
	ahead    []byte
	from, to int // what is read and not taken
	heard    atomic.Uint64
	waste    []byte // for bytes that nobody wants
}

func newInput(conn net.Conn, d *direct, aheadBytes int) *input {
	if d == nil {
		aheadBytes = aheadCallsBytes
	}
	return &input{conn: conn, direct: d, ahead: make([]byte, aheadBytes)}
}

// header reads the next frame's. io.EOF is an end between frames.
func (in *input) header() (h header, err error) {
	for in.to-in.from < headerBytes {
		if err := in.more(); err != nil {
			if err == io.EOF && in.to > in.from {
				err = io.ErrUnexpectedEOF
			}
			return h, err
		}
	}
	h, err = parseHeader(in.ahead[in.from:])
	in.from += headerBytes
	return h, err
}

// more reads ahead.
func (in *input) more() error {
	if in.from > 0 {
		in.to = copy(in.ahead, in.ahead[in.from:in.to])
		in.from = 0
	}
	n, err := in.conn.Read(in.ahead[in.to:])
	in.to += n
	if n > 0 {
		in.heard.Add(1)
		return nil
	}
	return err
}

// own fills b, memory of ours, with what follows.
func (in *input) own(b []byte) error {
	n := copy(b, in.ahead[in.from:in.to])
	in.from += n
	for n < len(b) {
		got, err := in.conn.Read(b[n:])
		if n += got; got > 0 {
			in.heard.Add(1)
			continue
		}
		return unexpected(err)
	}
	return nil
}

// skip drops n bytes.
func (in *input) skip(n int) error {
	if in.waste == nil && n > 0 {
		in.waste = make([]byte, wasteBytes)
	}
	for n > 0 {
		part := in.waste[:min(n, len(in.waste))]
		if err := in.own(part); err != nil {
			return err
		}
		n -= len(part)
	}
	return nil
}

// outcome is what became of a chunk.
type outcome uint8

const (
	whole           outcome = iota
	destinationGone         // the memory is not there (any more)
	sourceGone              // the sender's memory is not: what came are not its bytes
)

// into reads a chunk of n bytes into m at offset, and its trailer. All of it is taken off
// the stream, whatever becomes of m: if it is closed meanwhile the rest is dropped, and
// also if it is not there. Errors are the connection's.
func (in *input) into(m *memory, offset, n int) (o outcome, err error) {
	for n > 0 {
		got, err := in.some(m, offset, n)
		offset, n = offset+got, n-got
		switch {
		case err == nil:
			continue
		case err == errWithdrawn:
		case isFault(err):
			o = destinationGone
		default:
			return o, unexpected(err)
		}
		if err := in.skip(n); err != nil {
			return o, err
		}
		n = 0
	}
	for in.from == in.to {
		if err := in.more(); err != nil {
			return o, unexpected(err)
		}
	}
	if in.ahead[in.from] != trailerWhole && o == whole {
		o = sourceGone
	}
	in.from++
	return o, nil
}

// some takes up to n bytes off the stream, for m at offset.
func (in *input) some(m *memory, offset, n int) (int, error) {
	if got := min(n, in.to-in.from); got > 0 {
		err := m.put(offset, in.ahead[in.from:in.from+got])
		in.from += got
		return got, err
	}
	if in.direct == nil {
		return 0, in.more()
	}
	got, err := in.direct.read(m, offset, n, in.ahead)
	if got > 0 {
		in.heard.Add(1)
	}
	if got > n {
		in.from, in.to, got = 0, got-n, n
	}
	return got, err
}

// unexpected is err, where the stream may not end.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
