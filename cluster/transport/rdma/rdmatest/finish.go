package rdmatest

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// heal ends all troubles, and starts every node that is down.
func (r *runner) heal() {
	r.log.printf("all is healed")
	r.net.HealAll()
	r.fabric.HealAll()
	for _, n := range r.nodes {
		n.begin()
		if l := n.now(); l != nil {
			if ways, ok := l.t.(transport.Ways); ok {
				ways.PlainFor(0)
			}
		}
	}
	time.Sleep(time.Second)
}

// finishMax is how long it may take until all is as it was.
const finishMax = 90 * time.Second

// finish demands that every node gets blocks of every other one, by RDMA if both have it.
func (r *runner) finish() {
	for _, n := range r.nodes {
		for _, other := range r.nodes {
			if n != other && !r.failed() {
				r.finishPair(n.now(), other.now())
			}
		}
	}
}

func (r *runner) finishPair(l, other *life) {
	ways, _ := l.t.(transport.Ways)
	locks := r.h.Config.LockBytes // who may not register as much as it wants may have no RDMA
	wanted := ways != nil && !l.plain && !other.plain && locks[l.n.number] == 0 && locks[other.n.number] == 0 &&
		!l.n.stuck.Load() && !other.n.stuck.Load()
	var way transport.Way
	for began := time.Now(); time.Since(began) < finishMax; time.Sleep(100 * time.Millisecond) {
		if wanted {
			way = ways.Way(other.n.self.Node)
		}
		a := r.last(l, other)
		if r.failed() {
			return
		}
		if a.err != nil {
			r.log.printf("%s: %v", a.name, a.err)
			continue
		}
		if !wanted {
			return
		}
		after := ways.Way(other.n.self.Node)
		if after.Blocks-way.Blocks == uint64(len(a.asked)) && after.Name == "rdma" && after.Ports > 0 {
			return
		}
		way = after
	}
	r.fail("AGAIN: all is healed, and blocks do not come to %s from %s again as they should: %+v", l.n.name, other.n.name, way)
}

// last fetches many blocks into memory that is known, and as many into other memory as there
// is room to land for.
func (r *runner) last(l, other *life) *asking {
	o := &Op{Kind: Fetch, Deadline: 20 * time.Second}
	for range 300 {
		o.Blocks = append(o.Blocks, Block{Bytes: 100, Pieces: 1, Known: true, SourceKnown: true})
	}
	for range (min(r.h.Config.LandingBytes, r.h.Config.InFlight) - 100<<10) / (100 << 10) {
		o.Blocks = append(o.Blocks, Block{Bytes: 100 << 10, Pieces: 2})
	}
	a := &asking{r: r, l: l, other: other.n, op: o, first: 1<<50 + uint64(time.Now().UnixNano()), name: fmt.Sprintf("the last of %s from %s", l.n.name, other.n.name)}
	dialing, stop := context.WithTimeout(context.Background(), dialMax)
	defer stop()
	link, err := l.link(dialing, other.n)
	if err != nil {
		a.err = err
		return a
	}
	ctx, stop := a.context()
	defer stop()
	a.fetch(ctx, link)
	return a
}
