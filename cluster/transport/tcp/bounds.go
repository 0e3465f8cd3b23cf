package tcp

import "github.com/spillway-kv/spillway/cluster/transport"

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
