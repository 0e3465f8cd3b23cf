package tcp

import (
	"net"
	"sync/atomic"
)

// output writes frames. Only one goroutine uses it.
type output struct {
	conn    net.Conn
	direct  *direct // nil with TLS
	head    []byte
	tail    [trailerBytes]byte
	private []byte        // TLS: a chunk on its way
	busy    atomic.Bool   // a write is under way
	moved   atomic.Uint64 // rises with what is written
}

// own writes memory of ours.
func (o *output) own(b []byte) error {
	o.busy.Store(true)
	defer o.busy.Store(false)
	_, err := o.conn.Write(b)
	o.moved.Add(1)
	return err
}

// chunk writes a frame that carries bytes of m, from h.Offset. If m is closed before
// it has begun, nothing is written; afterwards zeros take the place of the rest. ok is
// false if the memory is not there: the other side is told. Errors are the connection's.
func (o *output) chunk(h *header, m *memory) (ok bool, err error) {
	o.head = h.append(o.head[:0])
	o.tail[0] = trailerWhole
	if o.direct == nil {
		return o.sealed(h, m)
	}
	o.busy.Store(true)
	defer o.busy.Store(false)
	end := headerBytes + int(h.Length) + trailerBytes
	for sent, ok := 0, true; ; {
		put, err := o.direct.write(o.part(h, sent), m, o.tail[0] != trailerWhole)
		sent += put
		o.moved.Add(1)
		switch {
		case sent == end:
			return ok, nil
		case err == nil:
			continue
		case isFault(err):
			ok = false
		case err != errWithdrawn:
			return ok, err
		}
		o.tail[0] = trailerSpoiled
		switch {
		case sent > 0:
		case ok:
			return ok, nil
		default:
			return ok, o.abort(h)
		}
	}
}

// part is what is left of a frame of which so many bytes are sent.
func (o *output) part(h *header, sent int) remainder {
	n := int(h.Length) - max(0, sent-headerBytes)
	return remainder{head: o.head[min(sent, headerBytes):], offset: int(h.Offset) + int(h.Length) - max(0, n), n: max(0, n), tail: o.tail[:]}
}

// sealed is chunk over TLS, which reads what it encrypts piece by piece: it gets a copy.
func (o *output) sealed(h *header, m *memory) (bool, error) {
	if o.private == nil {
		o.private = make([]byte, headerBytes+chunkBytes+trailerBytes)
	}
	b := o.private[:headerBytes+int(h.Length)]
	copy(b, o.head)
	switch err := m.get(int(h.Offset), b[headerBytes:]); {
	case err == nil:
		return true, o.own(append(b, o.tail[0]))
	case isFault(err):
		return false, o.abort(h)
	}
	return true, nil
}

func (o *output) abort(of *header) error {
	h := header{Type: typeAbort, Call: of.Call, Index: of.Index}
	o.head = h.append(o.head[:0])
	return o.own(o.head)
}
