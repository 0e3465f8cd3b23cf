package daemon

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/engine"
)

// TestRDMABetween: what is put at one of two daemons comes to clients of the other by RDMA,
// by tcp when an operator says so, and by tcp to one that has no RDMA.
func TestRDMABetween(t *testing.T) {
	n := sim.New(sim.Config{Seed: 1})
	t.Cleanup(n.Close)
	const patient = "placement = \"local\"\nmatch_time = \"30s\"\nget_time = \"30s\"\n"
	node := func(name string, host uint8, seed string) poolRig {
		m, err := n.Machine(name, sim.MachineConfig{Ports: sim.RoCE(host, 2)})
		must(t, err)
		r := newPoolRig(t, name, "transport = \"rdma\"\n"+patient+seed)
		r.fabric = m
		r.start()
		return r
	}
	a := node("a", 1, "")
	seed := fmt.Sprintf("seeds = [%q]\n", a.gossip())
	b := node("b", 2, seed)
	c := newPoolRig(t, "c", patient+seed) // by tcp
	c.start()
	way := func(r poolRig, peer string) transport.Way {
		for _, p := range r.status().Peers {
			if p.Name == peer && p.Link == "up" && p.State == "active" && p.Usable {
				return p.Way
			}
		}
		return transport.Way{}
	}
	b.eventually("b reaches a by RDMA, and over both ports", func() bool { w := way(b, "a"); return w.Name == "rdma" && w.Ports == 2 })
	c.eventually("c reaches a", func() bool { return way(c, "a").Name == "tcp" })

	atA, atB, atC := a.blocks(), b.blocks(), c.blocks()
	atA.put()
	atB.get()
	if w := way(b, "a"); w.Blocks != blocksMoved || w.Bytes != blocksMoved*movedBytes || w.Fallbacks != 0 {
		t.Errorf("b got its blocks otherwise: %+v", w)
	}
	a.eventually("a has sent them so", func() bool {
		w := way(a, "b")
		return w.SentBlocks == blocksMoved && w.SentBytes == blocksMoved*movedBytes
	})
	atC.get()
	if w := way(c, "a"); w.Blocks != 0 || w.Why != "" {
		t.Errorf("c has no RDMA and wants none: %+v", w)
	}
	var done struct{}
	must(t, b.ask("POST", "/v1/pool/way", `{"way": "tcp", "for": "10m"}`, &done))
	atB.get()
	if w := way(b, "a"); w.Blocks != blocksMoved || w.Name != "tcp" || w.Why == "" {
		t.Errorf("held to tcp: %+v", w)
	}
	must(t, b.ask("POST", "/v1/pool/way", `{"way": "auto"}`, &done))
	atB.get()
	if w := way(b, "a"); w.Blocks != 2*blocksMoved || w.Name != "rdma" {
		t.Errorf("free again: %+v", w)
	}
	for _, r := range []poolRig{c, b, a} {
		must(t, r.end())
	}
}

const (
	blocksMoved = 16
	movedBytes  = 64 << 10
)

// mover puts and gets the same blocks.
type mover struct {
	r      poolRig
	space  *client.Namespace
	memory *client.Region
	blocks []client.Block
}

// blocks is a client of a daemon.
func (r poolRig) blocks() *mover {
	r.t.Helper()
	c, err := r.dial("")
	must(r.t, err)
	r.t.Cleanup(c.Close)
	m := &mover{r: r}
	m.space, err = c.Namespace(r.t.Context(), engine.Descriptor{Name: "n", BlockBytes: movedBytes}, "")
	must(r.t, err)
	m.memory, err = c.Allocate(blocksMoved * movedBytes)
	must(r.t, err)
	for i := range blocksMoved {
		m.blocks = append(m.blocks, client.Block{Key: fmt.Appendf(nil, "key-%d", i), Places: []client.Place{m.memory.Row(i, movedBytes)}})
	}
	return m
}

func movedContent(i int) []byte {
	return bytes.Repeat([]byte{byte(i), 'x', byte(i >> 8), 'y'}, movedBytes/4)
}

func (m *mover) put() {
	m.r.t.Helper()
	for i := range blocksMoved {
		copy(m.memory.Bytes()[i*movedBytes:], movedContent(i))
	}
	for i, s := range m.space.Put(m.blocks, client.PutOptions{}).Wait().Statuses {
		if s != client.Stored {
			m.r.t.Errorf("block %d: %v", i, s)
		}
	}
}

// get reads all blocks and wants them whole.
func (m *mover) get() {
	m.r.t.Helper()
	clear(m.memory.Bytes())
	for i, s := range m.space.Get(m.blocks, client.GetOptions{}).Wait().Statuses {
		if s != client.Hit || !bytes.Equal(m.memory.Bytes()[i*movedBytes:][:movedBytes], movedContent(i)) {
			m.r.t.Errorf("block %d: %v, or other bytes\n%s", i, s, &m.r.log)
		}
	}
}
