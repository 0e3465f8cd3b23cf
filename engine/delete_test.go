package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestDeleteOfEvictedBlock: a block that has been evicted, but of which the log
// does not durably say so yet, does not come back after a deletion.
func TestDeleteOfEvictedBlock(t *testing.T) {
	back := 0
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{SyncInterval: time.Hour}))
			ns := namespace(t, s, "a", 4096)
			slots := ns.Stat().Slots
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, slots)...), engine.Stored)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, 0), engine.Present)
			all(t, put(t, ns, engine.PutOptions{}, 100000), engine.Stored)
			all(t, get(t, ns, slots-1), engine.Miss) // the leaf of the first put went
			if seed%2 == 0 {
				if n, err := ns.Delete([]engine.Key{key(slots - 1)}); n != 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			r.powerCut(s)
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 4096)
			got := get(t, ns, slots-1)[0]
			if seed%2 == 0 && got == engine.Hit {
				t.Errorf("seed %d: a block came back after its deletion and a power cut", seed)
			}
			if seed%2 == 1 && got == engine.Hit {
				back++
			}
			mustClose(t, s)
		})
	}
	if back == 0 {
		t.Error("without a deletion no block ever came back: the test proves nothing")
	}
}

// TestDeleteIsDurable: whatever the power cut loses, a deletion is not undone.
func TestDeleteIsDurable(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, sequence(0, 20)...), engine.Stored)
			n, err := ns.Delete([]engine.Key{key(3), key(3), key(4), key(77), {Group: 1, Bytes: key(5).Bytes}})
			if n != 2 || err != nil {
				t.Fatal(n, err)
			}
			r.powerCut(s)
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 4096)
			all(t, get(t, ns, 3, 4), engine.Miss)
			all(t, get(t, ns, append(sequence(0, 3), sequence(5, 15)...)...), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestDropIsDurable: nothing put before a drop is answered after it, on
// whichever side of a power cut.
func TestDropIsDurable(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{}))
			ns, other := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, sequence(0, 20)...), engine.Stored)
			all(t, put(t, other, engine.PutOptions{Durability: engine.Durable}, sequence(0, 20)...), engine.Stored)
			must(t, ns.Drop())
			if st := ns.Stat(); st.Incarnation != 2 || st.Segments != 0 || st.Blocks != 0 {
				t.Errorf("%+v", st)
			}
			if seed%2 == 0 {
				all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, 3), engine.Stored)
			}
			r.powerCut(s)
			s = r.open(engine.Options{})
			ns, other = namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
			if st := ns.Stat(); st.Incarnation != 2 {
				t.Errorf("seed %d: incarnation %d", seed, st.Incarnation)
			}
			all(t, get(t, ns, append(sequence(0, 3), sequence(4, 16)...)...), engine.Miss)
			want := engine.Miss
			if seed%2 == 0 {
				want = engine.Hit
			}
			all(t, get(t, ns, 3), want)
			all(t, get(t, other, sequence(0, 20)...), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestDropWhileReadAndWritten: transfers in flight end as misses, hits or
// dropped puts, and nothing of them stays.
func TestDropWhileReadAndWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		if m, err := ns.Match([]engine.Key{key(1)}, engine.MatchOptions{Lease: time.Hour}); err != nil || m.Leased != 1 {
			t.Fatal(m, err)
		}
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		gets, puts := make(chan []engine.Status), make(chan []engine.Status)
		go func() { gets <- get(t, ns, 1, 2) }()
		go func() { puts <- put(t, ns, engine.PutOptions{}, 3, 4) }()
		time.Sleep(time.Second / 2)
		must(t, ns.Drop())
		all(t, <-gets, engine.Hit) // found before the drop
		all(t, <-puts, engine.Dropped)
		r.disk.SetFaults(sim.Plan{})
		all(t, get(t, ns, 1, 2, 3, 4), engine.Miss)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2, 3, 4), engine.Stored)
		all(t, get(t, ns, 1, 2, 3, 4), engine.Hit)
		if st := s.Stat(); st.LeasedBlocks != 0 {
			t.Errorf("%d blocks leased", st.LeasedBlocks)
		}
		mustClose(t, s)
	})
}

// TestDeleteBeatsALatePut: a put that was answered Late is still on its way when
// its block is deleted. It comes to nothing.
func TestDeleteBeatsALatePut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{StuckAfter: time.Hour}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		time.Sleep(10 * time.Second) // synced and written ahead: the next transfer is the put's
		synctest.Wait()
		r.disk.SetFaults(sim.Plan{Filter: isSegment, StuckOnce: 1})
		released := make(chan struct{})
		items := []engine.PutItem{{Key: key(2), Src: [][]byte{content(2, 4096)}}}
		must(t, ns.Put(items, engine.PutOptions{Deadline: time.Now().Add(time.Second), Released: func(int) { close(released) }}))
		if items[0].Status != engine.Late {
			t.Fatal(items[0].Status)
		}
		deleted := make(chan error, 1)
		go func() { // its sync may wait for the drive
			_, err := ns.Delete(keysOf(2))
			deleted <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		r.disk.SetFaults(sim.Plan{})
		<-released
		must(t, <-deleted)
		all(t, get(t, ns, 2), engine.Miss)
		all(t, put(t, ns, engine.PutOptions{}, 2), engine.Stored)
		all(t, get(t, ns, 1, 2), engine.Hit)
		mustClose(t, s)
	})
}
