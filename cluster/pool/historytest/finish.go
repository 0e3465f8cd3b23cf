package historytest

import (
	"fmt"
	"time"
)

// settleTime is long enough for links, breakers and merges to find together again.
const settleTime = 90 * time.Second

// heal ends all troubles, and starts every node that is down.
func (r *runner) heal() {
	r.log.printf("all is healed")
	r.net.HealAll()
	r.rdma.healAll()
	r.world.Settle()
	for _, n := range r.nodes {
		r.check(n.begin())
		if l := n.life(); l != nil {
			r.check(l.process.Pool().Undrain()) // it may have died while it drained
		}
	}
	time.Sleep(settleTime)
}

// finish judges the healed pool.
func (r *runner) finish() {
	r.converged()
	r.model.heal()
	for i, n := range r.nodes {
		l := n.life()
		c := &caller{r: r, n: n, l: l, name: fmt.Sprintf("the end at node %d", i)}
		for space := range r.h.Config.Spaces {
			c.floor(l.spaces[space], space)
			var all []block
			for key := range r.h.Config.Keys {
				all = append(all, block{space, key})
			}
			c.load(l.spaces[space], all, time.Time{}, false)
		}
	}
	r.lasting()
	r.idle()
}

// converged demands that all nodes know the same.
func (r *runner) converged() {
	for i, n := range r.nodes {
		first, l := r.nodes[0].life(), n.life()
		if a, b := first.process.Pool().Stat().Erase.Known, l.process.Pool().Stat().Erase.Known; a != b {
			r.fail("DIFFER: node 0 knows erasures %v, node %d %v", a, i, b)
		}
		for s := range l.spaces {
			if a, b := first.spaces[s].Incarnation(), l.spaces[s].Incarnation(); a != b {
				r.fail("DIFFER: namespace %d has incarnation %d at node 0, %d at node %d", s, a, b, i)
			}
		}
		for _, p := range l.process.Pool().Stat().Peers {
			if p.Member && !p.Usable {
				r.fail("DIFFER: node %d does not use node %s: link %s (%s), breaker %s", i, p.Name, p.Link, p.Cause, p.Breaker)
			}
		}
	}
}

// lasting demands that what was stored is found, where nothing could have taken it away.
func (r *runner) lasting() {
	for _, t := range r.h.Troubles {
		switch t.Kind {
		case Kill, PowerCut, Drain:
			return
		}
	}
	for _, n := range r.nodes {
		if n.life().process.Pool().Stat().Erase.Cleared > 0 {
			return
		}
	}
	for _, b := range r.model.lasting() {
		for i, n := range r.nodes {
			c := &caller{r: r, n: n, l: n.life(), name: fmt.Sprintf("what lasts at node %d", i)}
			if got := c.load(c.l.spaces[b.space], []block{b}, time.Time{}, false); got[0].String() != "HIT" {
				r.fail("LOST: %v was stored and is not erased, and node %d answers %v", b, i, got[0])
			}
		}
	}
}

// idle demands that nothing is under way any more.
func (r *runner) idle() {
	time.Sleep(time.Second)
	for i, n := range r.nodes {
		for _, p := range n.life().process.Pool().Stat().Peers {
			if p.InFlightBytes != 0 || p.PutQueueBytes != 0 {
				r.fail("MEMORY: node %d has %d bytes in flight with node %s, and %d in its queue of puts", i, p.InFlightBytes, p.Name, p.PutQueueBytes)
			}
		}
		if st := n.life().store.Stat(); st.FramesInUse != 0 {
			r.fail("MEMORY: %d frames of node %d's store are in use", st.FramesInUse, i)
		}
	}
}
