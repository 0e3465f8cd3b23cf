package peer

import (
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// IDsMax bounds the IDs that one message names.
const IDsMax = 1 << 17

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

// count takes the number of things that follow, each of so many bytes at least: more
// than the rest of the body can hold is refused before anything is made for them.
func (r *reader) count(most, bytesEach int, what string) int {
	n := int(r.u32(what))
	if r.err == nil && (n > most || n > len(r.b)/bytesEach) {
		r.fail("%d %s in %d bytes, at most %d are allowed", n, what, len(r.b), most)
	}
	if r.err != nil {
		return 0
	}
	return n
}

// ids takes a count and so many IDs.
func (r *reader) ids() []ID {
	n := r.count(IDsMax, len(ID{}), "IDs")
	if n == 0 {
		return nil
	}
	all := make([]ID, n)
	for i := range all {
		copy(all[i][:], r.take(len(ID{}), "ID"))
	}
	return all
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

func appendIDs(b []byte, ids []ID) []byte {
	b = le.AppendUint32(b, uint32(len(ids)))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}
