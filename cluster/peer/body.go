package peer

import (
	"encoding/binary"

	"github.com/spillway-kv/spillway/cluster/wire/fields"
)

var le = binary.LittleEndian

// IDsMax bounds the IDs that one message names.
const IDsMax = 1 << 17

// reader takes fields off a body.
type reader struct{ fields.Reader }

func read(body []byte) reader { return reader{fields.New(body, ErrMalformed)} }

// count takes the number of things that follow, each of so many bytes at least: more
// than the rest of the body can hold is refused before anything is made for them.
func (r *reader) count(most, bytesEach int, what string) int {
	n := int(r.U32(what))
	if r.Err() == nil && (n > most || n > len(r.Rest())/bytesEach) {
		r.Fail("%d %s in %d bytes, at most %d are allowed", n, what, len(r.Rest()), most)
	}
	if r.Err() != nil {
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
		copy(all[i][:], r.Take(len(ID{}), "ID"))
	}
	return all
}

func appendIDs(b []byte, ids []ID) []byte {
	b = le.AppendUint32(b, uint32(len(ids)))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}
