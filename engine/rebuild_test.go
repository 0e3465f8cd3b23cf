package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// rebuild makes a new index.
func (r *rig) rebuild() engine.RebuildReport {
	r.t.Helper()
	report, faults := r.check(engine.CheckOptions{Rebuild: true})
	if report.Rebuilt == nil {
		r.t.Fatalf("not rebuilt: %+v\n%s", report, show(faults))
	}
	return *report.Rebuilt
}

// loseIndex removes the index, and the log too if asked.
func (r *rig) loseIndex(logToo bool) {
	r.t.Helper()
	r.fs = vfs.NewCrashableMem()
	if !logToo {
		return
	}
	r.offline(func(dev device.Device) {
		names, err := dev.List()
		must(r.t, err)
		for _, name := range names {
			if isLog(name) {
				must(r.t, dev.Remove(name))
			}
		}
	})
}

// TestRebuildAfterClose: without index, and even without log, everything comes
// back from the directories, with its key, but what was deleted or dropped.
func TestRebuildAfterClose(t *testing.T) {
	for _, logToo := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: 1})
			s := r.open(small(engine.Options{}))
			ns, other := namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes)
			all(t, put(t, other, engine.PutOptions{}, sequence(0, 5)...), engine.Stored)
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 100)...), engine.Stored)
			must(t, other.Drop())
			all(t, put(t, other, engine.PutOptions{}, sequence(2, 3)...), engine.Stored)
			if _, err := ns.Delete([]engine.Key{key(3), key(999)}); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			r.loseIndex(logToo)
			if report, faults := r.check(engine.CheckOptions{}); report.Damage == 0 {
				t.Errorf("a missing index is no fault: %s", show(faults))
			}
			report := r.rebuild()
			if report.Restored != 102 || report.Lost != 0 || report.GivenUp != 0 || report.Unnamed != 0 || report.OldIndex != "" {
				t.Errorf("%+v", report)
			}
			if report, faults := r.check(engine.CheckOptions{}); report.Damage > 0 && !logToo || report.Blocks != 102 {
				t.Errorf("after the rebuild: %+v\n%s", report, show(faults))
			}
			s = r.open(engine.Options{})
			ns, other = namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes)
			all(t, get(t, ns, 3), engine.Miss)
			all(t, get(t, ns, append(sequence(0, 3), sequence(4, 96)...)...), engine.Hit)
			all(t, get(t, other, 0, 1), engine.Miss)
			all(t, get(t, other, 2, 3, 4), engine.Hit)
			if n := len(places(t, ns, append(sequence(0, 3), sequence(4, 96)...)...)); n != 99 {
				t.Errorf("%d listed", n)
			}
			all(t, put(t, ns, engine.PutOptions{}, sequence(200, 100)...), engine.Stored)
			all(t, get(t, ns, sequence(200, 100)...), engine.Hit)
			mustClose(t, s)
			r.silent("used after the rebuild")
		})
	}
}

// TestRebuildAfterKill: what the log still holds comes back too.
func TestRebuildAfterKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, sequence(0, 200)...), engine.Stored)
		time.Sleep(5 * time.Second)
		all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, sequence(200, 20)...), engine.Stored)
		if _, err := ns.Delete([]engine.Key{key(7), key(210)}); err != nil {
			t.Fatal(err)
		}
		r.kill(s)
		r.loseIndex(false)
		if report := r.rebuild(); report.Restored != 218 || report.Lost != 0 {
			t.Errorf("%+v", report)
		}
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		all(t, get(t, ns, 7, 210), engine.Miss)
		all(t, get(t, ns, append(sequence(0, 7), sequence(8, 202)...)...), engine.Hit)
		mustClose(t, s)
	})
}

// TestRebuildOfDamagedIndex: the old index is kept aside, what can be read of it
// is used, and the quarantine stays.
func TestRebuildOfDamagedIndex(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 100)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, WriteEIO: 1})
		all(t, put(t, ns, engine.PutOptions{}, 500), engine.Dropped)
		r.disk.SetFaults(sim.Plan{})
		mustClose(t, s)
		if report := r.rebuild(); report.Restored != 100 || report.OldIndex != "index.damaged-1" {
			t.Errorf("a healthy one: %+v", report)
		}
		names, err := r.fs.List("index")
		must(t, err)
		for _, name := range names {
			if len(name) > 4 && name[len(name)-4:] == ".sst" {
				r.flipIndex("index/"+name, 20)
			}
		}
		if _, err := r.tryOpen(engine.Options{}); !errors.Is(err, engine.ErrCorrupt) {
			t.Fatalf("opened with a damaged index: %v", err)
		}
		if report := r.rebuild(); report.Restored != 100 || report.OldIndex != "index.damaged-2" {
			t.Errorf("a damaged one: %+v", report)
		}
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		all(t, get(t, ns, sequence(0, 100)...), engine.Hit)
		mustClose(t, s)
		r.silent("used after the rebuild")
	})
}

// TestRebuildDisbelievesDeletions: with the record of deletions damaged no
// directory is used, and the next open makes a record that covers them.
func TestRebuildDisbelievesDeletions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 50)...), engine.Stored)
		mustClose(t, s)
		disk, fs := r.disk.Clone(), r.fs
		must(t, r.disk.FlipBit("DELETES", 33, 2))
		r.loseIndex(true)
		if report := r.rebuild(); report.Restored != 0 || report.GivenUp != 50 {
			t.Errorf("%+v", report)
		}
		r.disk, r.fs = disk, fs
		must(t, r.disk.FlipBit("DELETES", 33, 2))
		r.kill(r.open(engine.Options{}))
		r.loseIndex(true)
		if report := r.rebuild(); report.Restored != 0 || report.GivenUp != 50 {
			t.Errorf("%+v", report)
		}
	})
}

// TestRebuildIsCutShort: between the steps of a rebuild there is always one
// whole index to open with.
func TestRebuildIsCutShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, moves := range [][][2]string{{{"index", "index.building"}}, {{"index", "index.new"}}} {
			r := newRig(t, sim.Config{Seed: 1})
			s := r.open(small(engine.Options{}))
			all(t, put(t, namespace(t, s, "a", 4096), engine.PutOptions{}, sequence(0, 50)...), engine.Stored)
			mustClose(t, s)
			for _, m := range moves {
				must(t, r.fs.Rename(m[0], m[1]))
			}
			want := engine.Hit
			if moves[0][1] == "index.building" {
				want = engine.Miss
				r.loseIndex(true)
			}
			s = r.open(engine.Options{})
			all(t, get(t, namespace(t, s, "a", 4096), sequence(0, 50)...), want)
			mustClose(t, s)
			if _, err := r.fs.Stat(moves[0][1]); err == nil {
				t.Errorf("%s is still there", moves[0][1])
			}
		}
	})
}

// TestRebuildNeverUndeletes: lives full of evictions, deletions, drops, kills and
// power cuts, with the index, and at times the log, lost in between: what was
// deleted stays so, and what is answered is exact.
func TestRebuildNeverUndeletes(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 6
	}
	restored, lives := 0, 0
	for seed := range seeds {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			gone := map[int]bool{} // deleted, and not put since
			for range 6 {
				s := r.open(engine.Options{CapacityBytes: 3 << 20, SegmentBytes: 64 << 10, SyncInterval: 50 * time.Millisecond})
				ns := namespace(t, s, "a", 4096)
				for n := range 1000 {
					if get(t, ns, n)[0] == engine.Hit && gone[n] {
						t.Fatalf("seed %d: block %d came back after its deletion", seed, n)
					}
				}
				r.churn(ns, gone)
				switch r.rng.IntN(3) {
				case 0:
					mustClose(t, s)
				case 1:
					r.kill(s)
				default:
					r.powerCut(s)
				}
				if r.rng.IntN(3) > 0 {
					r.loseIndex(r.rng.IntN(3) == 0)
					restored += r.rebuild().Restored
					lives++
				}
			}
		})
	}
	t.Logf("%d blocks restored in %d rebuilds", restored, lives)
	if restored < 10*lives {
		t.Error("the rebuilds restored next to nothing: the test proves little")
	}
}

// churn works with 1000 blocks, far more than fit.
func (r *rig) churn(ns *engine.Namespace, gone map[int]bool) {
	r.t.Helper()
	for range 3 + r.rng.IntN(10) {
		first := r.rng.IntN(950)
		switch r.rng.IntN(8) {
		case 0, 1:
			var keys []engine.Key
			for n := first; n < first+20; n++ {
				keys = append(keys, key(n))
			}
			_, err := ns.Delete(keys)
			must(r.t, err)
			for n := first; n < first+20; n++ {
				gone[n] = true
			}
		case 2:
			if r.rng.IntN(4) == 0 {
				must(r.t, ns.Drop())
				for n := range 1000 {
					gone[n] = true
				}
			}
		case 3:
			time.Sleep(time.Duration(r.rng.Int64N(int64(12 * time.Second))))
		default:
			o := engine.PutOptions{Durability: engine.Durability(r.rng.IntN(2))}
			for n := first; n < first+50; n++ {
				delete(gone, n)
			}
			put(r.t, ns, o, sequence(first, 50)...)
		}
	}
}

// TestRebuildAfterDeletionOfEvicted: a block that had long been evicted when it
// was deleted is still named by a directory, and its bytes may still be there.
func TestRebuildAfterDeletionOfEvicted(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: 1})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			slots := ns.Stat().Slots
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, slots)...), engine.Stored)
			time.Sleep(10 * time.Second) // directories are written
			all(t, put(t, ns, engine.PutOptions{}, 100000), engine.Stored)
			all(t, get(t, ns, slots-1), engine.Miss)
			time.Sleep(10 * time.Second) // the log is synced
			if deleted {
				if n, err := ns.Delete([]engine.Key{key(slots - 1)}); n != 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			r.kill(s)
			r.loseIndex(true)
			r.rebuild()
			s = r.open(engine.Options{})
			want := engine.Hit
			if deleted {
				want = engine.Miss
			}
			all(t, get(t, namespace(t, s, "a", 4096), slots-1), want)
			mustClose(t, s)
		})
	}
}
