package rdmatest

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
)

// trouble waits for its time, and lasts.
func (r *runner) trouble(t *Trouble) {
	r.sleep(t.At)
	select {
	case <-r.over:
		return
	default:
	}
	r.log.printf("trouble: %+v", *t)
	r.note(func(f *Figures) { f.Troubles++ })
	n, other := r.nodes[t.Node], r.nodes[t.Other]
	switch t.Kind {
	case CutCalls, CutWrites, CutBack, CutAll:
		r.cut(t, n, other)
	case Stop, Freeze:
		r.still(t, n)
	case Kill, PowerCut:
		r.crash(t, n)
	default:
		r.fault(t, n)
	}
	r.log.printf("trouble is over: %+v", *t)
}

// cut cuts ways between two nodes.
func (r *runner) cut(t *Trouble, n, other *node) {
	if t.Kind == CutCalls || t.Kind == CutAll {
		r.both(n, other, r.net.Cut)
		defer r.both(n, other, r.net.Heal)
	}
	if t.Kind != CutCalls {
		r.fabric.Cut(n.name, other.name)
		defer r.both(n, other, r.fabric.Heal)
	}
	if t.Kind == CutBack || t.Kind == CutAll {
		r.fabric.Cut(other.name, n.name)
	}
	r.sleep(t.For)
}

// still has a process, or a machine, stand still.
func (r *runner) still(t *Trouble, n *node) {
	r.net.Freeze(n.name)
	if t.Kind == Freeze {
		r.fabric.Freeze(n.name)
		r.sleep(t.For)
		r.fabric.Thaw(n.name)
	} else {
		r.fabric.Stop(n.name)
		r.sleep(t.For)
		r.fabric.Continue(n.name)
	}
	r.net.Thaw(n.name)
}

// fault is one of devices, or of the speed of things.
func (r *runner) fault(t *Trouble, n *node) {
	port := portName(t.Port)
	switch t.Kind {
	case PortDown:
		r.fabric.SetPort(n.name, port, false)
		r.sleep(t.For)
		r.fabric.SetPort(n.name, port, true)
	case Device:
		r.fabric.FailDevice(n.name, port[:len(port)-2])
	case Breaks:
		r.fabric.SetBreaks(0.02)
		r.sleep(t.For)
		r.fabric.SetBreaks(0)
	case Stick:
		n.stuck.Store(true)
		r.fabric.SetDestroyFails(n.name, true)
		r.sleep(t.For)
		r.fabric.SetDestroyFails(n.name, false)
	case SlowCalls:
		r.net.SetShape(n.name, netsim.Shape{DelayMin: 20 * time.Millisecond, DelayMax: 300 * time.Millisecond, BytesPerSecond: 500_000})
		r.sleep(t.For)
		r.net.SetShape(n.name, netsim.Shape{DelayMin: r.h.Config.DelayMax / 4, DelayMax: r.h.Config.DelayMax, BytesPerSecond: r.h.Config.BytesPerSecond})
	case Plain:
		if l := n.now(); l != nil {
			if ways, ok := l.t.(transport.Ways); ok {
				ways.PlainFor(t.For)
			}
		}
	}
}

// both does something to both ways between two nodes.
func (r *runner) both(a, b *node, do func(from, to string)) {
	do(a.name, b.name)
	do(b.name, a.name)
}

// crash kills a node, and starts it again.
func (r *runner) crash(t *Trouble, n *node) {
	if !n.die(t.Kind == PowerCut) {
		r.sleep(t.For)
		return
	}
	r.sleep(t.For)
	n.begin()
}
