package rdma

import (
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine/fault"
)

// staged sends the next n bytes of a block, the first of which are not registered, through
// memory of our own.
func (d *sender) staged(o *outgoing, n int) bool {
	b := d.berth(o, n)
	switch {
	case b != nil:
	case o.r.over():
		return false
	default:
		o.status, o.sum = transport.Refused, 0
		return true
	}
	copied := b.pieces(0, n)[0]
	if err := fault.Guard(func() { o.gather(copied) }); err != nil {
		b.free()
		o.status, o.sum = transport.Miss, 0
		return true
	}
	address, key, n := d.g.s.t.regions.source(d.port.index, copied)
	if n < len(copied) {
		panic("rdma: staging memory is not registered")
	}
	ok := d.span(o, address, key, n)
	d.making.berths = append(d.making.berths, b)
	return ok
}

// gather copies the next bytes of a block.
func (o *outgoing) gather(to []byte) {
	for source, within := o.aim.source, o.aim.within; len(to) > 0; source, within = source+1, 0 {
		to = to[copy(to, o.pieces[source][within:]):]
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
