package mount

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/wire"
	tier "github.com/spillway-kv/spillway/tiering/memory"
)

// extremes are what a hostile client writes where a number stands.
var extremes = []uint32{0, 1, 1<<16 - 1, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1}

// mutate changes a few numbers or bits of a body, or cuts it.
func mutate(rng *rand.Rand, body []byte) []byte {
	for range 1 + rng.IntN(3) {
		if len(body) < 4 {
			return body
		}
		switch rng.IntN(4) {
		case 0:
			body[rng.IntN(len(body))] ^= 1 << rng.IntN(8)
		case 1:
			body = body[:rng.IntN(len(body))]
		default:
			at := rng.IntN(min(len(body), 64)/4) * 4
			binary.LittleEndian.PutUint32(body[at:], extremes[rng.IntN(len(extremes))])
		}
	}
	return body
}

// TestMutants: requests that are right but for a few numbers, to a node with a memory
// tier, cost nobody else anything, and leave nothing behind.
func TestMutants(t *testing.T) {
	const rows = 16
	r := withMemory(t, 2, tier.Options{Bytes: 8 << 20, Verify: true}).start()
	w := r.witness(t)
	seed := uint64(11)
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		c, region, _ := r.rawMount("bad", rows)
		named := wire.MakeKeys(keys(0, rows))
		requests := []struct {
			kind wire.Type
			m    wire.Message
		}{
			{wire.TypePut, c.put(region, 0, rows)},
			{wire.TypeGet, c.get(region, 0, rows)},
			{wire.TypeMatch, &wire.Match{Namespace: c.ns, ComputeUS: 7, LeaseMS: 5, Trailing: 3, Keys: named}},
			{wire.TypePrefetch, &wire.KeyList{Namespace: c.ns, Keys: named}},
			{wire.TypeTouch, &wire.KeyList{Namespace: c.ns, Keys: named}},
			{wire.TypeDelete, &wire.KeyList{Namespace: c.ns, Keys: named}},
			{wire.TypeLocate, &wire.KeyList{Namespace: c.ns, Keys: named}},
		}
		for range 4 {
			q := requests[rng.IntN(len(requests))]
			c.last++
			// The daemon may have had enough of this connection already.
			_, _ = c.socket.Write(wire.AppendFrame(nil, q.kind, c.last, wire.Raw(mutate(rng, q.m.Append(nil)))))
		}
		_ = c.socket.CloseWrite()
		_, _ = io.Copy(io.Discard, c.socket)
	}
	r.settle()
	w.end()
	r.clean(t, 0)
	r.stop()
}

// TestPrefetchOfDropped: a namespace that is dropped while its blocks are fetched ahead
// is gone for its readers, and its frames serve others.
func TestPrefetchOfDropped(t *testing.T) {
	const rows = 64
	r := withMemory(t, 1, tier.Options{Bytes: 8 << 20, Verify: true}).start()
	c, other := r.dial(), r.dial()
	p := newPool(t, c, rows)
	for round := range 20 {
		ns, hidden := open(t, c, "a"), open(t, other, "a")
		p.put(ns, 0, rows, client.Stored)
		hidden.Prefetch(0, keys(0, rows))
		must(t, ns.Drop(t.Context()))
		ns = open(t, c, "a")
		for i, s := range ns.Get(p.blocks(0, rows), client.GetOptions{}).Wait().Statuses {
			if s != client.Miss {
				t.Fatalf("round %d: block %d of a namespace that was dropped: %v", round, i, s)
			}
		}
		hidden.Prefetch(0, keys(0, rows))
	}
	r.settle()
	ns := open(t, c, "b")
	p.put(ns, 0, rows, client.Stored)
	ns.Prefetch(0, keys(0, rows))
	r.settle()
	before := r.node.Stat().Memory.Hits
	for i, s := range ns.Get(p.blocks(0, rows), client.GetOptions{}).Wait().Statuses {
		if s != client.Hit || !p.holds(i, i) {
			t.Errorf("block %d of another namespace: %v", i, s)
		}
	}
	if r.node.Stat().Memory.Hits == before {
		t.Error("nothing of another namespace comes from memory")
	}
	c.Close()
	other.Close()
	r.clean(t, 0)
	r.stop()
}
