package historytest

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/member/membertest"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
)

// trouble waits for its time, and lasts.
func (r *runner) trouble(t *Trouble) {
	r.sleep(t.At)
	select {
	case <-r.over:
		if t.Kind != Late {
			return
		}
	default:
	}
	r.log.printf("trouble: %+v", *t)
	r.model.note(func(f *Figures) { f.Troubles++ })
	n, other := r.nodes[t.Node], r.nodes[t.Other]
	switch t.Kind {
	case Cut:
		r.cut(t, [][2]*node{{n, other}})
	case CutBoth:
		r.cut(t, [][2]*node{{n, other}, {other, n}})
	case Isolate:
		r.cut(t, r.ways(n))
	case Freeze:
		r.net.Freeze(n.address)
		r.rdma.freeze(n)
		r.noticed(t, r.ways(n))
		r.rdma.thaw(n)
		r.net.Thaw(n.address)
	case Slow:
		r.net.SetShape(n.address, netsim.Shape{DelayMin: 20 * time.Millisecond, DelayMax: 300 * time.Millisecond, BytesPerSecond: 50_000})
		r.sleep(t.For)
		r.net.SetShape(n.address, netsim.Shape{DelayMin: r.h.Config.DelayMax / 4, DelayMax: r.h.Config.DelayMax, BytesPerSecond: r.h.Config.BytesPerSecond})
	case Damaged, Chopped:
		p := netsim.Payload{Damaged: 0.3}
		if t.Kind == Chopped {
			p = netsim.Payload{Truncated: 0.2}
		}
		r.net.SetPayload(p)
		r.sleep(t.For)
		r.net.SetPayload(netsim.Payload{})
	case Kill, PowerCut:
		r.crash(t, n)
	case Doubt, Deny:
		s := membertest.Suspect
		if t.Kind == Deny {
			s = membertest.Absent
		}
		r.world.See(n.id, other.id, s)
		r.sleep(t.For)
		r.world.See(n.id, other.id, membertest.True)
	case Deafen:
		r.world.Deafen(n.id, other.id, true)
		r.sleep(t.For)
		r.world.Deafen(n.id, other.id, false)
	case Late:
		r.sleep(t.For)
		r.check(n.begin())
	case Drain:
		r.drain(t, n)
	}
	r.log.printf("trouble is over: %+v", *t)
}

// ways are those from and to a node.
func (r *runner) ways(n *node) (ways [][2]*node) {
	for _, o := range r.nodes {
		if o != n {
			ways = append(ways, [2]*node{n, o}, [2]*node{o, n})
		}
	}
	return ways
}

func (r *runner) cut(t *Trouble, ways [][2]*node) {
	for _, w := range ways {
		r.net.Cut(w[0].address, w[1].address)
		r.rdma.cut(w[0], w[1])
	}
	r.noticed(t, ways)
	for _, w := range ways {
		r.net.Heal(w[0].address, w[1].address)
		r.rdma.mend(w[0], w[1])
	}
}

// noticed lets a trouble of the network last, and the membership see it: doubt first,
// then failure.
func (r *runner) noticed(t *Trouble, ways [][2]*node) {
	if t.Noticed == 0 || t.Noticed >= t.For {
		r.sleep(t.For)
		return
	}
	see := func(s membertest.Sight) {
		for _, w := range ways {
			r.world.See(w[0].id, w[1].id, s)
			r.world.See(w[1].id, w[0].id, s)
		}
	}
	r.sleep(t.Noticed)
	see(membertest.Suspect)
	left := t.For - t.Noticed
	r.sleep(left / 2)
	see(membertest.Absent)
	r.sleep(left - left/2)
	see(membertest.True)
}

// crash kills a node, and starts it again.
func (r *runner) crash(t *Trouble, n *node) {
	if !n.die(t.Kind == PowerCut) {
		r.sleep(t.For)
		return
	}
	if t.Noticed > 0 && t.Noticed < t.For {
		r.sleep(t.Noticed)
		r.world.Part(n.id)
		r.sleep(t.For - t.Noticed)
	} else {
		r.sleep(t.For)
	}
	r.check(n.begin())
}

// drain lets a node hand its blocks over, and then stay after all.
func (r *runner) drain(t *Trouble, n *node) {
	if l := n.life(); l != nil {
		r.log.printf("node %d drains: %v", n.number, l.process.Pool().Drain())
	}
	r.sleep(t.For)
	if l := n.life(); l != nil {
		r.log.printf("node %d stays: %v", n.number, l.process.Pool().Undrain())
	}
}
