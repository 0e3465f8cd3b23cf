package peer

import (
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// reader takes fields off a body. After the first field that is not there it yields
// zeros, and done reports an error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.b) {
		r.fail("%s of %d bytes, %d are left", what, n, len(r.b))
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) u8(what string) uint8 {
	if b := r.take(1, what); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16(what string) uint16 {
	if b := r.take(2, what); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (r *reader) u32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *reader) u64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// count is a number of items of which each takes itemBytes at least: what follows can
// hold them, or it is an error and 0.
func (r *reader) count(itemBytes int, what string) int {
	n := int(r.u32(what))
	if r.err == nil && n > len(r.b)/itemBytes {
		r.fail("%d %s, %d bytes are left", n, what, len(r.b))
	}
	if r.err != nil {
		return 0
	}
	return n
}

// ids is a list of IDs with its length before it.
func (r *reader) ids() [][16]byte {
	n := r.count(16, "IDs")
	ids := make([][16]byte, n)
	for i := range ids {
		ids[i] = [16]byte(r.take(16, "ID"))
	}
	return ids
}

func appendIDs(b []byte, ids [][16]byte) []byte {
	b = le.AppendUint32(b, uint32(len(ids)))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

// bits is a bitmap of n: bit i%8 of byte i/8 stands for item i, and those past n are 0.
func (r *reader) bits(n int, what string) []bool {
	raw := r.take((n+7)/8, what)
	if raw == nil {
		return nil
	}
	if n%8 != 0 && raw[n/8]>>(n%8) != 0 {
		r.fail("%s has bits past its %d items", what, n)
		return nil
	}
	is := make([]bool, n)
	for i := range is {
		is[i] = raw[i/8]>>(i%8)&1 != 0
	}
	return is
}

func appendBits(b []byte, is []bool) []byte {
	from := len(b)
	b = append(b, make([]byte, (len(is)+7)/8)...)
	for i, yes := range is {
		if yes {
			b[from+i/8] |= 1 << (i % 8)
		}
	}
	return b
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

// done checks that nothing is left.
func (r *reader) done() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes behind the last field", len(r.b))
	}
	return r.err
}
