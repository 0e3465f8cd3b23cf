package rdma

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// rail is one queue pair of a session, with its result table. Below lines all is guarded by
// the session's mu.
type rail struct {
	number   uint8 // as both sides count them
	port     *port
	pair     fabric.QueuePair
	array    *offheap.Array[byte]
	table    []byte
	region   fabric.Region // of the table
	received chan struct{} // closed when the receiver has ended; nil: it was not started
	fate     fate          // the keeper's own

	lines    []line
	free     []uint16
	posted   int   // receives, less the completions that were taken
	underway int64 // bytes that are asked for
	probed   bool
	probe    chan struct{} // closed with probed
}

// fate is what has become of a queue pair.
type fate uint8

const (
	unmade fate = iota
	made
	destroyed
	stuck // it could not be destroyed: nobody knows what the device still does
)

// line is a line of a result table: it belongs to one block from the time it is asked for
// until its record has come, or a fence is passed.
type line struct {
	request    *request // nil: it is free
	block      int32
	generation uint32
}

// spareReceives are posted beyond those that blocks need: for the probe, or the mark of a
// fence, and for more than that.
const spareReceives = 16

// linesOf is how many lines the result table of a port has.
func linesOf(p *fabric.Port) int { return min(linesMax, p.Limits.ReceivesMax-spareReceives) }

// newRail makes a queue pair on a port, with receives posted.
func newRail(p *port) (r *rail, err error) {
	r = &rail{port: p, probe: make(chan struct{}), lines: make([]line, linesOf(&p.info))}
	for i := range r.lines {
		r.free = append(r.free, uint16(len(r.lines)-1-i))
	}
	defer func() {
		if err != nil {
			r, err = nil, errors.Join(fmt.Errorf("%s: %w", p.info.Name(), err), r.discard())
		}
	}()
	if r.array, err = offheap.Make[byte](len(r.lines) * recordBytes); err != nil {
		return r, err
	}
	r.table = r.array.Slice()
	if r.region, err = p.device.Register(r.table, fabric.RemoteWrite); err != nil {
		return r, err
	}
	p.rails.Add(1)
	if r.pair, err = p.device.NewQueuePair(fabric.QueueOptions{Sends: 1, Receives: len(r.lines) + spareReceives, RemoteWrite: true}); err != nil {
		p.rails.Add(-1)
		return r, err
	}
	r.fate = made
	return r, r.postLocked()
}

// shorten leaves so many lines.
func (r *rail) shorten(lines int) {
	r.lines = r.lines[:lines]
	r.free = r.free[len(r.free)-lines:]
}

// postLocked posts receives for all lines in use, and some more. The queue has room for them.
func (r *rail) postLocked() error {
	n := len(r.lines) - len(r.free) + spareReceives - r.posted
	if n <= 0 {
		return nil
	}
	if err := r.pair.PostReceives(n); err != nil {
		return err
	}
	r.posted += n
	return nil
}

// discard takes a rail back, and destroys it unless it is. What a device may still write to
// stays as it is.
func (r *rail) discard() error {
	if err := r.destroy(); err != nil || r.fate == stuck {
		return err
	}
	if r.received != nil {
		<-r.received
	}
	if r.region != nil {
		if err := r.region.Deregister(); err != nil {
			return fmt.Errorf("a result table stays registered: %w", err)
		}
	}
	if r.array != nil {
		r.array.Free()
	}
	return nil
}

// destroy is the fence of a rail. After an error nothing is known, and the port is not used
// any more.
func (r *rail) destroy() error {
	if r.fate != made {
		return nil
	}
	if err := r.pair.Destroy(); err != nil {
		r.fate = stuck
		r.port.broken.Store(true)
		return fmt.Errorf("a queue pair of %s cannot be destroyed: %w", r.port.info.Name(), err)
	}
	r.fate = destroyed
	r.port.rails.Add(-1)
	return nil
}

func (r *rail) callerRail() callerRail {
	return callerRail{end: r.port.endpoint(r.pair.Local()), table: r.region.Address(), tableKey: r.region.RemoteKey()}
}
