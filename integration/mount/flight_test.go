package mount

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestAnsweredIsOver: a client that has the last message of a request, of whatever
// operation, finds it counted no more, and may use its number and its room at once.
func TestAnsweredIsOver(t *testing.T) {
	r := newSimRig(t)
	r.options = node.Options{RequestsMax: 1}
	r.start()
	c, region, m := r.rawMount("a", 4)
	number := c.last + 1
	ask := func(kind wire.Type, message wire.Message, oob []byte) []byte {
		t.Helper()
		c.last = number - 1
		body := c.ask(kind, message, oob)
		if n := r.node.Stat().Clients[0].Requests; n != 0 {
			t.Fatalf("operation %#x is answered, and %d requests are in flight", kind, n)
		}
		return body
	}
	key := &wire.KeyList{Namespace: c.ns, Keys: wire.MakeKeys(keys(0, 1))}
	for range 100 {
		ask(wire.TypePut, c.put(region, 0, 4), nil)
		ask(wire.TypeGet, c.get(region, 0, 4), nil)
		ask(wire.TypeDelete, key, nil)
		ask(wire.TypeStats, wire.Number(c.ns), nil)
		ask(wire.TypeDrain, nil, nil)
		ask(wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: []byte(`{"name":"a","block_bytes":16384}`)}, nil)
		n, err := wire.ParseNumber(ask(wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: 4096}, unix.UnixRights(m.fd)))
		must(t, err)
		ask(wire.TypeDropRegion, n, nil)
		c.last = number - 1
		c.send(wire.TypeGet, &wire.Get{Namespace: 99, Keys: wire.MakeKeys(keys(0, 1)), Places: places(region, 1)}, nil)
		c.want(wire.TypeError)
	}
	// A late get is over with its last release.
	ask(wire.TypePut, c.put(region, 0, 4), nil)
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 5 * time.Millisecond})
	for range 20 {
		g := c.get(region, 0, 4)
		g.DeadlineUS = 100
		c.last = number - 1
		c.send(wire.TypeGet, g, nil)
		late := 0
		for _, s := range c.results(wire.TypeGet).Statuses {
			if wire.Status(s) == wire.Late {
				late++
			}
		}
		for late > 0 {
			items, err := wire.ParseReleased(c.want(wire.TypeReleased))
			must(t, err)
			late -= len(items)
		}
		if n := r.node.Stat().Clients[0].Requests; n != 0 {
			t.Fatalf("the last item is released, and %d requests are in flight", n)
		}
	}
	r.disk.SetFaults(sim.Plan{})
	_ = c.socket.Close()
	r.clean(t, 0)
	r.stop()
}
