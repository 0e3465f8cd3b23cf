package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// TestUsesSurviveRestart: after a close and an open the blocks used lately stay, as if
// nothing had happened; those put early and used since are not the first to go.
func TestUsesSurviveRestart(t *testing.T) {
	for _, name := range []string{evict.Hazard, evict.S3FIFO} {
		bubble(t, func(t *testing.T) {
			policy, err := evict.Named(name)
			must(t, err)
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{Policy: policy}))
			ns := namespace(t, s, "a", 4096)
			slots := ns.Stat().Slots
			for n := range slots {
				all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
			}
			time.Sleep(20 * time.Second)
			for range 3 {
				for n := range slots / 4 { // the oldest ones
					all(t, get(t, ns, n), engine.Hit)
				}
				time.Sleep(time.Second)
			}
			mustClose(t, s)
			s = r.open(engine.Options{Policy: policy})
			ns = namespace(t, s, "a", 4096)
			for n := range slots / 2 {
				all(t, put(t, ns, engine.PutOptions{}, 50000+n), engine.Stored)
			}
			all(t, noTouch(t, ns, sequence(0, slots/4)...), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestRestartInMidTrace: a store that is closed and opened in the middle of a random
// walk over chains has about the hits of one that is not.
func TestRestartInMidTrace(t *testing.T) {
	const requests = 900
	run := func(t *testing.T, end func(*rig, *engine.Store) *engine.Store) (before, after float64) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: 7})
			s := r.open(small(engine.Options{Policy: evict.NewHazard}))
			ns := namespace(t, s, "a", 4096)
			rng := rand.New(rand.NewPCG(7, 5))
			var hits, wanted [2]int
			for n := range requests {
				if n == requests/2 && end != nil {
					s = end(r, s)
					ns = namespace(t, s, "a", 4096)
				}
				chain := chains(rng, 12, 3, 24)
				half := n * 2 / requests
				wanted[half] += len(chain)
				m, err := ns.Match(keysOf(chain...), engine.MatchOptions{})
				must(t, err)
				hits[half] += m.Prefix
				all(t, put(t, ns, engine.PutOptions{}, chain...), engine.Stored, engine.Present)
				time.Sleep(time.Second)
			}
			before, after = float64(hits[0])/float64(wanted[0]), float64(hits[1])/float64(wanted[1])
			mustClose(t, s)
		})
		return before, after
	}
	_, whole := run(t, nil)
	_, restarted := run(t, func(r *rig, s *engine.Store) *engine.Store {
		mustClose(t, s)
		return r.open(engine.Options{Policy: evict.NewHazard})
	})
	t.Logf("prefix hits in the second half: %.3f, with a restart %.3f", whole, restarted)
	if restarted < whole-.01 {
		t.Errorf("prefix hits in the second half fall from %.3f to %.3f", whole, restarted)
	}
}
