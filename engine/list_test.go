package engine_test

import (
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestListStops: a listing ended by its function is no error, wherever in its
// chunks that happens.
func TestListStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{CapacityBytes: 8 << 20}))
		ns := namespace(t, s, "a", 4096)
		blocks := sequence(0, 700)
		all(t, put(t, ns, engine.PutOptions{}, blocks...), engine.Stored)
		places(t, ns, blocks...) // until the index has them all
		for _, limit := range []int{1, 2, 255, 256, 257, 511, 512, 513, 699, 700} {
			n := 0
			must(t, ns.List(func(engine.Entry) bool { n++; return n < limit }))
			if n != limit {
				t.Errorf("limit %d: %d entries", limit, n)
			}
		}
		mustClose(t, s)
	})
}

// TestRefuseLostIndex: with the option a store without its index is left as it
// is; without it, it opens and works.
func TestRefuseLostIndex(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 100)...), engine.Stored)
		mustClose(t, s)
		before := len(r.disk.Names())
		must(t, r.fs.RemoveAll("index"))
		_, err := r.tryOpen(engine.Options{RefuseLostIndex: true})
		wantErr(t, err, engine.ErrIndexLost)
		if n := len(r.disk.Names()); n != before {
			t.Errorf("%d files, %d before", n, before)
		}
		s = r.open(engine.Options{})
		ns, err = s.FindNamespace("a")
		must(t, err)
		all(t, put(t, ns, engine.PutOptions{}, 1000), engine.Stored)
		mustClose(t, s)
	})
}
