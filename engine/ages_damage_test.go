package engine_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// TestAgesSurviveACrash: a kill and a power cut cost the uses since ages were saved, five
// minutes at most, and nothing else: earlier uses count, and all blocks are here.
func TestAgesSurviveACrash(t *testing.T) {
	for name, crash := range map[string]func(*rig, *engine.Store){"kill": (*rig).kill, "power cut": (*rig).powerCut} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sim.Config{Seed: 3})
				s := r.open(small(engine.Options{Policy: evict.NewHazard}))
				ns := namespace(t, s, "a", 4096)
				slots := ns.Stat().Slots
				for n := range slots {
					all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
				}
				use := func(from, n int) {
					for range 3 {
						time.Sleep(time.Second)
						all(t, get(t, ns, sequence(from, n)...), engine.Hit)
					}
				}
				time.Sleep(20 * time.Second)
				use(0, slots/4) // the oldest ones
				time.Sleep(6 * time.Minute)
				use(slots/4, slots/4)
				crash(r, s)
				s = r.open(engine.Options{Policy: evict.NewHazard})
				ns = namespace(t, s, "a", 4096)
				all(t, noTouch(t, ns, sequence(0, slots)...), engine.Hit)
				for n := range slots / 2 {
					all(t, put(t, ns, engine.PutOptions{}, 50000+n), engine.Stored)
				}
				all(t, noTouch(t, ns, sequence(0, slots/4)...), engine.Hit)
				mustClose(t, s)
			})
		})
	}
}

// editAges changes the entries of the index that hold ages, of a store that is closed.
func (r *rig) editAges(edit func(value []byte) []byte) (edited int) {
	db, err := pebble.Open("index", &pebble.Options{FS: r.fs, DisableWAL: true, Logger: silent{}, FormatMajorVersion: pebble.FormatValueSeparation})
	must(r.t, err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("a"), UpperBound: []byte("b")})
	must(r.t, err)
	for ok := it.First(); ok; ok = it.Next() {
		if value := edit(slices.Clone(it.Value())); value != nil && !bytes.Equal(value, it.Value()) {
			must(r.t, db.Set(slices.Clone(it.Key()), value, pebble.NoSync))
			edited++
		}
	}
	must(r.t, it.Close())
	must(r.t, db.Flush())
	must(r.t, db.Close())
	return edited
}

// TestAgesDamaged: whatever ages and what was learned are damaged to, byte by byte, cut
// short or made longer, the store opens with all blocks, evicts, and closes; check
// names what it can tell, and calls nothing else damaged.
func TestAgesDamaged(t *testing.T) {
	const blocks = 4
	damages := map[string]func([]byte) []byte{
		"empty":  func(b []byte) []byte { return []byte{} },
		"longer": func(b []byte) []byte { return append(b, 0xff) },
		"random": func(b []byte) []byte { return bytes.Repeat([]byte{0xff}, len(b)) },
		"huge":   func(b []byte) []byte { return bytes.Repeat([]byte{0x55}, 13*2000) },
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at >= len(b) {
				return nil
			}
			b[at] ^= 0xff
			return b
		}
	}
	cut := func(at int) func([]byte) []byte { return func(b []byte) []byte { return b[:min(at, len(b))] } }
	for at := range blocks*13 + 20 { // the ages of all blocks, and the head of what was learned
		damages["flip "+strings.Repeat("+", at)] = flip(at)
		if !testing.Short() || at%5 == 0 {
			damages["cut "+strings.Repeat("+", at)] = cut(at)
		}
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{Policy: evict.NewHazard}))
		ns := namespace(t, s, "a", 4096)
		for n := range blocks {
			all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
			time.Sleep(time.Second)
		}
		mustClose(t, s)
		seen := 0
		for name, damage := range damages {
			if r.editAges(damage) == 0 {
				continue
			}
			if _, faults := r.check(engine.CheckOptions{}); len(faults) > 0 {
				seen++
				for _, f := range faults {
					if !strings.HasPrefix(f.File, "index") {
						t.Errorf("%s: check finds %+v", name, f)
					}
				}
			}
			s := r.open(engine.Options{Policy: evict.NewHazard})
			ns := namespace(t, s, "a", 4096)
			all(t, get(t, ns, sequence(0, blocks)...), engine.Hit)
			mustClose(t, s)
		}
		if seen == 0 {
			t.Error("check never noticed anything")
		}
		r.editAges(damages["random"])
		s = r.open(engine.Options{Policy: evict.NewHazard})
		ns = namespace(t, s, "a", 4096)
		for n := range 2 * ns.Stat().Slots {
			all(t, put(t, ns, engine.PutOptions{}, 100+n), engine.Stored)
		}
		mustClose(t, s)
	})
}
