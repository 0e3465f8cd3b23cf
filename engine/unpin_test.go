package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestDeleteDuringRead: a block that goes while it is read is a hit or a miss,
// and its slot comes back.
func TestDeleteDuringRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		done := make(chan []engine.Status)
		go func() { done <- get(t, ns, 1, 2) }()
		time.Sleep(time.Second / 2)
		if n, err := ns.Delete([]engine.Key{key(1)}); n != 1 || err != nil {
			t.Error(n, err)
		}
		all(t, <-done, engine.Hit)
		all(t, get(t, ns, 1), engine.Miss)
		r.disk.SetFaults(sim.Plan{})
		time.Sleep(3 * time.Second) // a sync later the slot is free
		if free, used, other, _ := s.FreeAndUsed(); used != 1 || other != 0 || free == 0 {
			t.Errorf("%d free, %d used, %d waiting", free, used, other)
		}
		mustClose(t, s)
	})
}
