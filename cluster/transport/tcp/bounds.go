package tcp

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// A call with a body of so many bytes, sealed, is urgent if its kind is, and a link serves so
// many of those at once beside all others.
const (
	urgentBytesMax = 64<<10 + sumBytes
	urgentMax      = 16
)

// urgent reports whether a request with this header takes part in no bound but its own.
func (h *header) urgent() bool {
	return h.Type == typeCall && transport.Kind(h.Code) >= transport.KindUrgent && h.Total <= urgentBytesMax
}

// slotsLocked are the slots for requests of r's kind that are taken, and how many there are.
func (r *request) slotsLocked() (taken *int, most int) {
	if r.h.urgent() {
		return &r.g.urgent, urgentMax
	}
	return &r.g.serving, r.g.t.o.Handlers
}

// reserve takes the room that a whole request needs. A peer that keeps to what it was
// told is never refused: what it has and this side has not counted yet as sent is not
// more than that once again. One that is larger than all counts as all, as at the peer.
func (r *request) reserve(sizes []uint32, body []byte) bool {
	if r.h.urgent() {
		return true
	}
	nBytes := min(sealedBytes(sizes, body), r.g.t.o.InFlightBytes)
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if r.g.bytes+nBytes > 2*r.g.t.o.InFlightBytes {
		return false
	}
	r.g.bytes += nBytes
	r.bytes = nBytes
	return true
}

// expect makes room for a chunk of a request. If there is none, or the request has taken too
// long, it is refused, and the rest of it is dropped. What a peer has on its way and keeps to
// what it was told is not more than InFlightBytes, or one request that is larger alone.
func (r *request) expect(h *header) bool {
	if h.Length == h.Total {
		return true
	}
	g, n := r.g, int64(h.Length)
	g.mu.Lock()
	there := g.requests[r.h.Call] == r
	full := there && g.partial > r.partial && g.partial+n > g.t.o.InFlightBytes
	if there && !full {
		r.partial += n
		g.partial += n
		if r.late == nil {
			r.late = time.AfterFunc(g.t.o.RequestTime, r.tooLate)
		}
	}
	g.mu.Unlock()
	if full {
		r.refuse("too many bytes of requests that are not whole are on their way on this link")
	}
	return there && !full
}

// came ends the bounds of a request that is not whole; false: they have ended it.
func (r *request) came() bool {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.wholeLocked()
	return r.g.requests[r.h.Call] == r
}

func (r *request) wholeLocked() {
	r.g.partial -= r.partial
	r.partial = 0
	if r.late != nil {
		r.late.Stop()
	}
}

// tooLate refuses a request that has not come whole in time.
func (r *request) tooLate() {
	r.g.mu.Lock()
	late := r.slot && r.partial > 0
	if late {
		r.handledLocked()
	}
	r.g.mu.Unlock()
	if late {
		r.refuse(fmt.Sprintf("the request has not come whole within %v", r.g.t.o.RequestTime))
	}
}
