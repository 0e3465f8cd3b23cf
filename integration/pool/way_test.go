package pool

import (
	"fmt"
	"testing"
	"time"
)

// arrived are the blocks that came to a node from others since its start, by the transport
// that the ground is for and by the other one; failing says why it did not come to that.
func (n *node) arrived() (by, otherwise uint64, failing string, err error) {
	var s struct {
		Peers []struct {
			Name string
			Hits uint64
			Way  struct {
				Name, Why string
				Blocks    uint64
			}
		}
	}
	if err := n.ask(&s, "/v1/pool"); err != nil {
		return 0, 0, "", err
	}
	for _, p := range s.Peers {
		rdma := min(p.Hits, p.Way.Blocks)
		by, otherwise = by+rdma, otherwise+p.Hits-rdma
		if p.Way.Name != here.way() {
			failing += fmt.Sprintf(" %s: by %s: %s", p.Name, p.Way.Name, p.Way.Why)
		}
	}
	if here.way() == "tcp" {
		by, otherwise = otherwise, by
	}
	return by, otherwise, failing, nil
}

// travel waits until so many more blocks have come to each of these nodes from others as
// the ground wants them to.
func (r *rig) travel(blocks uint64, nodes ...*node) {
	r.t.Helper()
	before := map[*node]uint64{}
	for _, n := range nodes {
		by, _, _, err := n.arrived()
		if err != nil {
			r.t.Fatal(err)
		}
		before[n] = by
	}
	r.eventually(fmt.Sprintf("%d blocks came to each by %s", blocks, here.way()), func() error {
		for _, n := range nodes {
			by, otherwise, failing, err := n.arrived()
			if err != nil {
				return err
			}
			if by < before[n]+blocks {
				return fmt.Errorf("%s: %d blocks by %s, %d otherwise;%s", n.name, by-before[n], here.way(), otherwise, failing)
			}
		}
		return nil
	})
}

// travelled logs how blocks came to these nodes since their starts.
func (r *rig) travelled(nodes ...*node) {
	r.t.Helper()
	for _, n := range nodes {
		by, otherwise, _, err := n.arrived()
		if err != nil {
			r.t.Error(err)
			continue
		}
		r.t.Logf("%s: since its start %d blocks of others came by %s, %d otherwise", n.name, by, here.way(), otherwise)
	}
}

// TestThree puts a pool of three through what is worst, under load: a node is killed, one
// is frozen, one is cut off. Every hit is proven, what was deleted is gone, and blocks travel
// as they should before and after each.
func TestThree(t *testing.T) {
	r := newRig(t, 3, "")
	n := r.nodes
	r.start(n...)
	l := r.newLoad("pool")
	for _, n := range n {
		l.run(n, 1)
	}
	again := func(what string) {
		t.Helper()
		r.together(n...)
		r.travel(chainBlocks, n...)
		t.Log(what)
	}
	again("a node is killed")
	n[2].kill()
	time.Sleep(time.Second)
	n[2].start()
	again("a node is frozen")
	n[1].freeze()
	time.Sleep(3 * time.Second)
	n[1].thaw()
	again("a node is cut off")
	for _, other := range n[1:] {
		here.cut(n[0], other)
		here.cut(other, n[0])
	}
	time.Sleep(4 * time.Second)
	for _, other := range n[1:] {
		here.heal(n[0], other)
		here.heal(other, n[0])
	}
	again("all is well")
	l.end()
	r.travelled(n...)
	time.Sleep(settleTime)
	l.sweep(n)
	if l.hits.Load() == 0 || l.stored.Load() == 0 {
		t.Error("the load was too tame")
	}
}
