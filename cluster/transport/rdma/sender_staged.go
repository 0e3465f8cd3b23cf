package rdma

import (
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine/fault"
)

// staged sends the rest of a block, of which some is not registered, through memory of our
// own.
func (d *sender) staged(o *outgoing, to *aim) bool {
	for rest := int(o.wanted().size) - to.done; rest > 0; rest = int(o.wanted().size) - to.done {
		b := d.berth(o, min(rest, landingUnitBytes))
		switch {
		case b != nil:
		case o.r.over():
			return false
		default:
			o.status, o.sum = transport.Refused, 0
			return true
		}
		copied := b.pieces(0, min(rest, landingUnitBytes))[0]
		if err := fault.Guard(func() { gather(copied, o.pieces, to.done) }); err != nil {
			b.free()
			o.status, o.sum = transport.Miss, 0
			return true
		}
		address, key, n := d.g.s.t.regions.source(d.port.index, copied)
		if n < len(copied) {
			panic("rdma: staging memory is not registered")
		}
		ok := d.span(o, to, address, key, n)
		d.making.berths = append(d.making.berths, b)
		if !ok {
			return false
		}
	}
	return true
}

// gather copies what pieces have from offset on.
func gather(to []byte, pieces [][]byte, offset int) {
	for _, p := range pieces {
		if offset >= len(p) {
			offset -= len(p)
			continue
		}
		to = to[copy(to, p[offset:]):]
		offset = 0
		if len(to) == 0 {
			return
		}
	}
}

// berth waits for staging memory; nil: the request is halted, or there is none any more. What
// was made before is posted first: it may hold some.
func (d *sender) berth(o *outgoing, nBytes int) *berth {
	if b := d.g.s.t.staging.take(nBytes); b != nil {
		return b
	}
	if !d.post(o) {
		return nil
	}
	b, err := d.g.s.t.staging.wait(o.r.live, nBytes)
	if err != nil {
		return nil
	}
	return b
}
