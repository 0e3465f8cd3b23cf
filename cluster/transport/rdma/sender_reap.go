package rdma

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// reap takes completions until one fails, or the queue pair is destroyed.
func (d *sender) reap() {
	var c [32]fabric.Completion
	for {
		n, err := d.pair.Sends().Wait(c[:])
		if err != nil {
			if !errors.Is(err, fabric.ErrClosed) {
				d.fail(fmt.Errorf("completions of %s: %w", d.port.info.Name(), err))
			}
			return
		}
		for _, c := range c[:n] {
			if c.Result != fabric.OK {
				d.failed(c)
				return
			}
			d.completed(c.ID)
		}
	}
}

// completed lets go of what belongs to lists up to this one.
func (d *sender) completed(id uint64) {
	d.mu.Lock()
	n := 0
	if id >= d.first {
		n = min(int(id-d.first)+1, len(d.posted))
	}
	done := slices.Clone(d.posted[:n])
	clear(d.posted[:n])
	if d.posted = d.posted[n:]; len(d.posted) == 0 {
		d.posted = nil
	}
	d.first += uint64(n)
	for i := range done {
		d.writes -= done[i].writes
		d.bytes -= done[i].bytes
	}
	d.changed.Broadcast()
	d.mu.Unlock()
	for i := range done {
		for _, o := range done[i].blocks {
			if o.status == transport.Done && !o.r.over() {
				d.g.of.sentBlocks.Add(1)
				d.g.of.sentBytes.Add(uint64(o.wanted().size))
			}
		}
		done[i].letGo()
	}
}

func (l *list) letGo() {
	for _, b := range l.berths {
		b.free()
	}
	for _, o := range l.blocks {
		o.finish()
	}
}

// failed takes the completion of a list that has failed: what is behind it has as well. A
// rail that fails with its probe is left out, by the caller too.
func (d *sender) failed(c fabric.Completion) {
	err := fmt.Errorf("a write from %s failed: %v (%d)", d.port.info.Name(), c.Result, c.Code)
	d.mu.Lock()
	begun := d.begun
	d.dead = d.dead || !begun
	d.changed.Broadcast()
	d.mu.Unlock()
	if begun {
		d.fail(err)
		return
	}
	d.g.s.t.o.Logger.Info("an RDMA rail of a peer's session cannot be used", "peer", d.g.peer.Name, "err", err)
	for _, other := range d.g.there() {
		if !other.isDead() {
			return
		}
	}
	d.g.fail(errNoRail)
}
