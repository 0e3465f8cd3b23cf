// Package fields takes fields off the body of a message. Clients' messages and those of
// peers are read with it.
package fields

import (
	"encoding/binary"
	"fmt"
)

// Reader takes fields off a body, every number little endian. After the first field that
// is not there it yields zeros, and Done reports an error.
type Reader struct {
	b         []byte
	err       error
	malformed error
}

// New reads body. The errors match malformed.
func New(body []byte, malformed error) Reader { return Reader{b: body, malformed: malformed} }

// Rest is what has not been taken.
func (r *Reader) Rest() []byte { return r.b }

// Err says what was wrong with the fields so far; nil: nothing.
func (r *Reader) Err() error { return r.err }

// Take takes n bytes, which are the body's; nil if they are not there.
func (r *Reader) Take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.b) {
		r.Fail("%s of %d bytes, %d are left", what, n, len(r.b))
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

// U8 takes a number of 1 byte.
func (r *Reader) U8(what string) uint8 {
	if b := r.Take(1, what); b != nil {
		return b[0]
	}
	return 0
}

// U16 takes a number of 2 bytes.
func (r *Reader) U16(what string) uint16 {
	if b := r.Take(2, what); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// U32 takes a number of 4 bytes.
func (r *Reader) U32(what string) uint32 {
	if b := r.Take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 takes a number of 8 bytes.
func (r *Reader) U64(what string) uint64 {
	if b := r.Take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Fail says what is wrong with the body; the first time counts.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{r.malformed}, args...)...)
	}
}

// Done checks that nothing is left.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		r.Fail("%d bytes behind the last field", len(r.b))
	}
	return r.err
}
