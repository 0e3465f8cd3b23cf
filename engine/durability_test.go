package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

var durable = engine.PutOptions{Durability: engine.Durable}

// TestDurablePutSurvivesPowerCut: what was acknowledged as durable is a hit
// after any power cut, however it was put before.
func TestDurablePutSurvivesPowerCut(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{SyncInterval: time.Hour}))
			ns, odd := namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes)
			relaxed := sequence(0, 10)
			all(t, put(t, ns, engine.PutOptions{}, relaxed...), engine.Stored)
			all(t, put(t, ns, durable, 3, 4, 5), engine.Present) // waits for its sync
			all(t, put(t, ns, durable, 20, 21), engine.Stored)
			all(t, put(t, odd, durable, 1, 2), engine.Stored)
			all(t, put(t, ns, engine.PutOptions{}, sequence(100, 20)...), engine.Stored)
			r.powerCut(s)
			s = r.open(engine.Options{})
			ns, odd = namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes)
			all(t, get(t, ns, 3, 4, 5, 20, 21), engine.Hit)
			all(t, get(t, odd, 1, 2), engine.Hit)
			get(t, ns, append(relaxed, sequence(100, 20)...)...) // exact, or a miss
			if c := s.Stat().Counters; c.TornBlocks != 0 || c.QuarantinedSlots != 0 {
				t.Errorf("seed %d: what a power cut lost counts as damage: %+v", seed, c)
			}
			mustClose(t, s)
		})
	}
}

// TestPresentWaitsForItsSync: a durable put of a block that is not durable yet
// takes as long as a sync does; one of a durable block takes no time.
func TestPresentWaitsForItsSync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{SyncInterval: time.Hour}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		time.Sleep(100 * time.Millisecond)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		for _, want := range []time.Duration{time.Second, 0, 0} {
			start := time.Now()
			all(t, put(t, ns, durable, 1), engine.Present)
			if d := time.Since(start); d != want {
				t.Errorf("it took %v, want %v", d, want)
			}
		}
		mustClose(t, s)
	})
}

// TestRelaxedSurvivesKill: a relaxed put survives the process once it is in the
// log's file, and a power cut once it is synced.
func TestRelaxedSurvivesKill(t *testing.T) {
	for seed := range uint64(10) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{SyncInterval: time.Second}))
			ns := namespace(t, s, "a", 4096)
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 50)...), engine.Stored)
			time.Sleep(25 * time.Millisecond) // the log's write interval is 20 ms
			r.kill(s)
			s = r.open(engine.Options{SyncInterval: time.Second})
			ns = namespace(t, s, "a", 4096)
			all(t, get(t, ns, sequence(0, 50)...), engine.Hit)
			all(t, put(t, ns, engine.PutOptions{}, sequence(50, 50)...), engine.Stored)
			time.Sleep(time.Second + 25*time.Millisecond)
			r.powerCut(s)
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 4096)
			all(t, get(t, ns, sequence(0, 100)...), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestLostIsNotDamage: after an unclean stop, bytes newer than the last sync
// count as lost; the slots are used again.
func TestLostIsNotDamage(t *testing.T) {
	lost := uint64(0)
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{SyncInterval: time.Hour}))
			ns := namespace(t, s, "a", 16384)
			all(t, put(t, ns, durable, 0), engine.Stored)
			all(t, put(t, ns, engine.PutOptions{}, sequence(1, 20)...), engine.Stored)
			if n, err := ns.Delete(keysOf(20)); n != 1 || err != nil { // syncs the log, not the data
				t.Fatal(n, err)
			}
			r.powerCut(s)
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 16384)
			get(t, ns, sequence(0, 20)...)
			c := s.Stat().Counters
			if c.TornBlocks != 0 || c.QuarantinedSlots != 0 {
				t.Errorf("seed %d: %+v", seed, c)
			}
			lost += c.LostBlocks
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 20)...), engine.Stored, engine.Present)
			all(t, get(t, ns, sequence(0, 20)...), engine.Hit)
			mustClose(t, s)
			// Damage that comes later is damage.
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 16384)
			all(t, put(t, ns, durable, 500), engine.Stored)
			r.flip(places(t, ns, 500)[500], 16384)
			all(t, get(t, ns, 500), engine.Miss)
			if c := s.Stat().Counters; c.TornBlocks != 1 || c.LostBlocks != 0 {
				t.Errorf("seed %d: later damage: %+v", seed, c)
			}
			mustClose(t, s)
		})
	}
	if lost == 0 {
		t.Error("no power cut ever lost a block")
	}
}

// TestFailedSync: pitfall P08: after a failed sync nothing is acknowledged any
// more, whatever later syncs say; gets go on; the next run has every block that
// was acknowledged as durable before.
func TestFailedSync(t *testing.T) {
	for name, filter := range map[string]func(string) bool{"data": isSegment, "log": isLog} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				bubble(t, func(t *testing.T) {
					r := newRig(t, sim.Config{Seed: seed})
					s := r.open(small(engine.Options{}))
					ns := namespace(t, s, "a", 4096)
					all(t, put(t, ns, durable, sequence(0, 10)...), engine.Stored)
					r.disk.SetFaults(sim.Plan{Filter: filter, SyncEIO: 1})
					item := []engine.PutItem{{Key: key(50), Src: [][]byte{content(50, 4096)}}}
					must(t, ns.Put(item, durable))
					if item[0].Status != engine.Dropped {
						t.Fatalf("seed %d: a put without a sync is %v", seed, item[0].Status)
					}
					wantErr(t, item[0].Err, engine.ErrReadOnly, "input/output error")
					r.disk.SetFaults(sim.Plan{}) // the next sync would say yes
					st := s.Stat()
					if st.Health != "read-only" || st.HealthCause == "" {
						t.Errorf("health %q, cause %q", st.Health, st.HealthCause)
					}
					for _, o := range []engine.PutOptions{{}, durable} {
						must(t, ns.Put(item, o))
						if item[0].Status == engine.Stored || o.Durability == engine.Durable && item[0].Status == engine.Present {
							t.Errorf("seed %d: acknowledged after a failed sync: %v", seed, item[0].Status)
						}
						other := putItems(4096, 60)
						must(t, ns.Put(other, o))
						all(t, []engine.Status{other[0].Status}, engine.Dropped)
					}
					if _, err := ns.Delete(keysOf(0)); err == nil {
						t.Error("a deletion was acknowledged after a failed sync")
					}
					all(t, get(t, ns, sequence(0, 10)...), engine.Hit)
					time.Sleep(10 * time.Second)
					if c := s.Stat().Counters; c.Stored != 10 {
						t.Errorf("%+v", c)
					}
					wantErr(t, s.Close(), engine.ErrReadOnly)
					s = r.open(engine.Options{})
					ns = namespace(t, s, "a", 4096)
					all(t, get(t, ns, sequence(0, 10)...), engine.Hit)
					get(t, ns, 50) // exact, or a miss
					all(t, put(t, ns, durable, 60), engine.Stored)
					mustClose(t, s)
				})
			}
		})
	}
}

// TestFailedLogWrite: the same when the log cannot be written.
func TestFailedLogWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, durable, sequence(0, 10)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isLog, WriteEIO: 1})
		all(t, put(t, ns, durable, 50), engine.Dropped)
		r.disk.SetFaults(sim.Plan{})
		if st := s.Stat(); st.Health != "read-only" {
			t.Errorf("health %q", st.Health)
		}
		all(t, put(t, ns, engine.PutOptions{}, 51), engine.Dropped)
		all(t, get(t, ns, sequence(0, 10)...), engine.Hit)
		wantErr(t, s.Close(), engine.ErrReadOnly)
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		all(t, get(t, ns, sequence(0, 10)...), engine.Hit)
		mustClose(t, s)
	})
}

// TestFailedDrop: a drop that could not be made durable serves nothing old and
// accepts nothing new.
func TestFailedDrop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, durable, 1), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: func(name string) bool { return name == "SPILLWAY" }, MetaEIO: 1})
		if err := ns.Drop(); err == nil {
			t.Fatal("dropped")
		}
		r.disk.SetFaults(sim.Plan{})
		all(t, get(t, ns, 1), engine.Miss)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Dropped)
		if st := s.Stat(); st.Health != "read-only" {
			t.Errorf("health %q", st.Health)
		}
		_ = s.Close()
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		get(t, ns, 1) // nobody was told that it is gone
		must(t, ns.Drop())
		all(t, get(t, ns, 1), engine.Miss)
		mustClose(t, s)
	})
}
