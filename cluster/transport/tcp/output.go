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
// it has begun, nothing is written; afterwards zeros take the place of the rest: who
// closed it has told the other side. ok is false if the memory is not there: then an
// abort follows the frame. Errors are the connection's.
func (o *output) chunk(h *header, m *memory) (ok bool, err error) {
	o.head = h.append(o.head[:0])
	if o.direct == nil {
		return o.sealed(h, m)
	}
	o.busy.Store(true)
	defer o.busy.Store(false)
	sent, filler := 0, false
	for ok = true; sent < headerBytes+int(h.Length); {
		head, n := o.head[min(sent, headerBytes):], int(h.Length)-max(0, sent-headerBytes)
		put, err := o.direct.write(head, m, int(h.Offset)+int(h.Length)-n, n, filler)
		sent += put
		o.moved.Add(1)
		switch {
		case err == nil:
		case err == errWithdrawn:
			filler = true
		case isFault(err):
			filler, ok = true, false
		default:
			return ok, err
		}
		if filler && sent == 0 {
			break
		}
	}
	if !ok {
		err = o.abort(h)
	}
	return ok, err
}

// sealed is chunk over TLS, which reads what it encrypts piece by piece: it gets a copy.
func (o *output) sealed(h *header, m *memory) (bool, error) {
	n := headerBytes + int(h.Length)
	if cap(o.private) < n {
		o.private = make([]byte, headerBytes+chunkBytes)
	}
	b := o.private[:n]
	copy(b, o.head)
	switch err := m.get(int(h.Offset), b[headerBytes:]); {
	case err == nil:
		return true, o.own(b)
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
