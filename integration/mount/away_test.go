package mount

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	nodes "github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cluster/wire"
)

// newPooled are nodes of one pool, whose data goes over TCP. New blocks stay where they
// are put.
func newPooled(t *testing.T, n int) (rigs []*rig) {
	t.Helper()
	world := membertest.New(1, 0, time.Millisecond)
	for i := range n {
		transport, err := tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"})
		must(t, err)
		id, name := member.ID{byte(i + 1)}, fmt.Sprint("node-", i)
		view := world.Join(member.Member{ID: id, Name: name, Address: transport.Address().String(), State: member.Joining, ProtocolLow: 1, ProtocolHigh: 1})
		p, err := nodes.New(nodes.Options{PoolID: "mount", Node: id, Name: name, Dir: t.TempDir(), Members: view, Transport: transport, LocalPlacement: true,
			MatchTime: 10 * time.Second, GetTime: 20 * time.Second}) // a busy machine is no slow peer
		must(t, err)
		r := newRig(t, 1)
		r.options.Pool = p
		rigs = append(rigs, r.start())
	}
	for _, r := range rigs {
		eventually(t, "all nodes are linked", func() bool {
			peers := r.options.Pool.Stat().Peers
			return len(peers) == n-1 && !slices.ContainsFunc(peers, func(p nodes.PeerStat) bool { return !p.Usable || p.Link != "up" })
		})
	}
	return rigs
}

// TestAway: a client finds and loads, through its own node, what others have put at other
// nodes; those blocks are counted apart.
func TestAway(t *testing.T) {
	rigs := newPooled(t, 3)
	for i, r := range rigs {
		c := r.dial()
		newPool(t, c, 8).put(open(t, c, "a"), 8*i, 8, client.Stored)
	}
	c := rigs[0].dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 30)
	m := ns.Match(keys(0, 30), client.MatchOptions{Lease: time.Minute})
	if m.Prefix != 24 || m.Leased != 24 || m.Present(25) {
		t.Fatalf("%+v", m)
	}
	rows.get(ns, 0, 24, client.Hit)
	rows.get(ns, 24, 6, client.Miss)
	for _, o := range []client.GetOptions{{Prefix: true}, {Prefix: true, Bounce: true}, {NoTouch: true}} {
		clear(rows.r.Bytes())
		result := ns.Get(rows.blocks(0, 30), o).Wait()
		if result.Prefix != 24 {
			t.Fatalf("%+v: a prefix of %d", o, result.Prefix)
		}
		for i := range 24 {
			if !rows.holds(i, i) {
				t.Fatalf("%+v: block %d has wrong bytes", o, i)
			}
		}
	}
	st := rigs[0].node.Stat().Spaces[0]
	if st.RemoteHits != 4*16 || st.Hits != 4*24 {
		t.Errorf("%+v", st)
	}
	m.Release()
	eventually(t, "leases end everywhere", func() bool {
		return rigs[0].leased()+rigs[1].leased()+rigs[2].leased() == 0
	})
}

func (r *rig) leased() int { return r.node.Stores()[0].Stat().LeasedBlocks }

// TestAwayMemoryGone: a client that takes its memory away, or leaves, while blocks of other
// nodes come into it gets misses and hurts nobody.
func TestAwayMemoryGone(t *testing.T) {
	const seed, blocks = 11, 64
	rng := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	rigs := newPooled(t, 2)
	far := rigs[1].dial()
	newPool(t, far, blocks).put(open(t, far, "a"), 0, blocks, client.Stored)
	good := rigs[0].dial()
	ns, rows := open(t, good, "a"), newPool(t, good, blocks)
	missed := 0
	for round := range 60 {
		bad, region, m := rigs[0].rawMount("a", blocks)
		if round%4 == 0 {
			m.cut(t, blocks/2*blockBytes) // before the first byte comes
		}
		g := bad.get(region, 0, blocks)
		if round%3 == 1 {
			g.Flags = wire.GetBounce
		}
		bad.send(wire.TypeGet, g, nil)
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
		switch round % 4 {
		case 1, 2:
			m.cut(t, rng.IntN(blocks)*blockBytes)
		case 3:
			must(t, bad.socket.Close())
			continue
		}
		results := bad.results(wire.TypeGet)
		for i, s := range results.Statuses {
			switch wire.Status(s) {
			case wire.Hit:
			case wire.Miss:
				missed++
			default:
				t.Errorf("block %d is %v", i, wire.Status(s))
			}
		}
		if round%4 == 0 && slices.ContainsFunc(results.Statuses[blocks/2:], func(s byte) bool { return wire.Status(s) == wire.Hit }) {
			t.Error("a hit in memory that is not there")
		}
		must(t, bad.socket.Close())
		if round%10 == 0 {
			rows.get(ns, 0, blocks, client.Hit)
		}
	}
	rows.get(ns, 0, blocks, client.Hit)
	if faults := rigs[0].node.Stat().Faults; faults == 0 || missed < 8*blocks/2 {
		t.Errorf("%d faults, %d misses", faults, missed)
	}
	for _, p := range rigs[0].node.Stat().Pool.Peers {
		if p.Wrong > 0 || !p.Usable {
			t.Errorf("a peer is blamed: %+v", p)
		}
	}
	eventually(t, "no memory of those clients is mapped", func() bool { return len(rigs[0].node.Stat().Clients) == 1 })
}
