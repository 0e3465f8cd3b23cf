package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// What random histories (package history) have found, each as small as it gets.

// TestLeaseOutranksQuota: a lowered quota takes no segment with a leased block,
// and takes it when the lease is over.
func TestLeaseOutranksQuota(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{LeaseShare: 0.9}))
		ns := namespace(t, s, "n", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 60)...), engine.Stored)
		m, err := ns.Match([]engine.Key{key(57)}, engine.MatchOptions{Lease: 10 * time.Second})
		if err != nil || m.Leased != 1 {
			t.Fatal(m, err)
		}
		segments, oneSegment := ns.Stat().Segments, s.Stat().SegmentBytes
		must(t, ns.SetQuota(oneSegment))
		all(t, get(t, ns, 57), engine.Hit)
		put(t, ns, engine.PutOptions{}, sequence(100, 60)...) // in the one segment that is left
		all(t, get(t, ns, 57), engine.Hit)
		time.Sleep(12 * time.Second)
		if n := ns.Stat().Segments; n > 1 || segments < 3 {
			t.Fatalf("%d segments of %d after the lease, the quota is 1", n, segments)
		}
		mustClose(t, s)
	})
}

// TestCapacityLoweredBelowBlocks: a store with more blocks than the new
// capacity can index opens, and gives up the coldest.
func TestCapacityLoweredBelowBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{CapacityBytes: 4 << 20}))
		ns := namespace(t, s, "n", 4096)
		put(t, ns, engine.PutOptions{}, sequence(0, 300)...)
		before := s.Stat().Blocks
		mustClose(t, s)
		s = r.open(engine.Options{CapacityBytes: 2 << 20})
		if st := s.Stat(); st.Blocks == 0 || st.Blocks >= before || st.UsedBytes > st.CapacityBytes {
			t.Fatalf("%d blocks of %d, %d bytes of %d", st.Blocks, before, st.UsedBytes, st.CapacityBytes)
		}
		mustClose(t, s)
	})
}

// TestPresentIsProven: a durable put of a block whose record has survived an
// unclean stop and whose bytes have not stores it anew.
func TestPresentIsProven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{SyncInterval: time.Hour}))
		ns := namespace(t, s, "n", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		name, offset := at(places(t, ns, 1, 2)[1], 4096)
		r.kill(s)
		must(t, r.disk.FlipBit(name, offset+100, 3)) // as if the data had been lost
		s = r.open(engine.Options{})
		ns = namespace(t, s, "n", 4096)
		got := put(t, ns, engine.PutOptions{Durability: engine.Durable}, 1, 2)
		if got[0] != engine.Stored || got[1] != engine.Present {
			t.Fatalf("%v, want STORED and PRESENT", got)
		}
		all(t, get(t, ns, 1, 2), engine.Hit)
		if c := s.Stat().Counters; c.LostBlocks != 1 || c.TornBlocks != 0 {
			t.Fatalf("%+v", c)
		}
		mustClose(t, s)
	})
}

// TestUnlinkFails: while a segment cannot be unlinked, a put that waits for a
// slot sleeps. (One that spins holds virtual time still.)
func TestUnlinkFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{LeaseShare: 1}))
		ns := namespace(t, s, "n", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 45)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{MetaEIO: 1, Filter: isSegment})
		if err := ns.SetQuota(s.Stat().SegmentBytes); err == nil {
			t.Fatal("unlinked in spite of EIO")
		}
		put(t, ns, engine.PutOptions{}, sequence(100, 30)...)
		var keys []engine.Key
		for n := range 130 {
			keys = append(keys, key(n))
		}
		if _, err := ns.Match(keys, engine.MatchOptions{Lease: time.Minute}); err != nil {
			t.Fatal(err)
		}
		items := []engine.PutItem{}
		for n := range 20 {
			items = append(items, engine.PutItem{Key: key(1000 + n), Src: [][]byte{content(1000+n, 4096)}})
		}
		must(t, ns.Put(items, engine.PutOptions{}))
		dropped := 0
		for _, it := range items {
			if errors.Is(it.Err, engine.ErrNoSpace) {
				dropped++
			}
		}
		if dropped == 0 {
			t.Fatal("nothing had to wait")
		}
		r.disk.SetFaults(sim.Plan{})
		time.Sleep(3 * time.Second)
		if n := len(r.disk.Names()); n > 12 {
			t.Fatalf("%d files are left: %v", n, r.disk.Names())
		}
		mustClose(t, s)
	})
}

// TestDeleteBuriesEarlierPuts: a deleted block does not come back from an
// earlier put of it that was evicted, but not yet durably so.
func TestDeleteBuriesEarlierPuts(t *testing.T) {
	for seed := range uint64(24) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{CapacityBytes: 2 << 20, SyncInterval: time.Hour}))
			ns := namespace(t, s, "n", 4096)
			n := 0
			for ; ns.Stat().Blocks < ns.Stat().Slots; n++ {
				all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, n), engine.Stored)
			}
			all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored) // evicts the first
			all(t, get(t, ns, 0), engine.Miss)
			all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
			if deleted, err := ns.Delete([]engine.Key{key(0)}); deleted != 1 || err != nil {
				t.Fatal(deleted, err)
			}
			r.powerCut(s)
			s = r.open(engine.Options{})
			all(t, get(t, namespace(t, s, "n", 4096), 0), engine.Miss)
			mustClose(t, s)
		})
	}
}
