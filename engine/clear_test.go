package engine_test

import (
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestClear: what was put before is gone for good, evicted blocks included whose end the
// log does not know yet; what is put after stays, under the same incarnation.
func TestClear(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{CapacityBytes: 2 << 20}))
			ns, other := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
			before := sequence(0, 600) // more than fit
			put(t, ns, engine.PutOptions{}, before...)
			all(t, put(t, other, engine.PutOptions{Durability: engine.Durable}, sequence(0, 3)...), engine.Stored)
			must(t, ns.Clear())
			all(t, get(t, ns, before...), engine.Miss)
			if n := ns.Incarnation(); n != 1 {
				t.Errorf("incarnation %d", n)
			}
			after := sequence(590, 20)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, after...), engine.Stored)
			r.powerCut(s)
			s = r.open(small(engine.Options{}))
			ns, other = namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
			all(t, get(t, ns, sequence(0, 590)...), engine.Miss)
			all(t, get(t, ns, after...), engine.Hit)
			all(t, get(t, other, sequence(0, 3)...), engine.Hit)
			mustClose(t, s)
		})
	}
}
