package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

func keysOf(blocks ...int) []engine.Key {
	keys := make([]engine.Key, len(blocks))
	for i, n := range blocks {
		keys[i] = key(n)
	}
	return keys
}

func leaseOf(t testing.TB, ns *engine.Namespace, d time.Duration, blocks ...int) engine.MatchResult {
	t.Helper()
	m, err := ns.Match(keysOf(blocks...), engine.MatchOptions{Lease: d})
	must(t, err)
	return m
}

// press puts n blocks that nobody has put before.
func press(t testing.TB, ns *engine.Namespace, from, n int) {
	t.Helper()
	for ; n > 0; n -= 8 {
		all(t, put(t, ns, engine.PutOptions{}, sequence(from, min(n, 8))...), engine.Stored)
		from += 8
	}
}

// fill brings the namespace to its bound, block 0 oldest.
func fill(t testing.TB, ns *engine.Namespace) (slots int) {
	t.Helper()
	slots = ns.Stat().Slots
	for n := range slots {
		all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
	}
	return slots
}

// TestLeaseHolds: leased blocks survive any pressure, up to the share; those
// beyond it do not.
func TestLeaseHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		slots := fill(t, ns)
		m := leaseOf(t, ns, 30*time.Second, sequence(0, slots)...)
		if m.Prefix != slots || m.Leased != slots/4 || m.Lease == 0 {
			t.Fatalf("prefix %d, %d leased of %d slots", m.Prefix, m.Leased, slots)
		}
		if again := leaseOf(t, ns, time.Second, slots-1); again.Leased != 0 || again.Lease != 0 || again.Prefix != 1 {
			t.Errorf("beyond the share: %+v", again)
		}
		// A second lease on a leased block takes no more of the share.
		if again := leaseOf(t, ns, time.Second, 0, 0, 1); again.Leased != 3 {
			t.Errorf("a second lease: %+v", again)
		}
		press(t, ns, 10000, 3*slots)
		all(t, noTouch(t, ns, sequence(0, slots/4)...), engine.Hit)
		all(t, noTouch(t, ns, sequence(slots/4, slots-slots/4)...), engine.Miss)
		if st := s.Stat(); st.LeasedBlocks != slots/4 {
			t.Errorf("%d blocks leased", st.LeasedBlocks)
		}
		ns.Release(m.Lease)
		ns.Release(m.Lease)
		ns.Release(77777)
		ns.Release(0)
		time.Sleep(2 * time.Second)
		press(t, ns, 50000, 3*slots)
		all(t, noTouch(t, ns, sequence(0, slots)...), engine.Miss)
		if st := s.Stat(); st.LeasedBlocks != 0 || st.Leases != 0 {
			t.Errorf("%+v", st)
		}
		mustClose(t, s)
	})
}

// TestLeaseExpires: at its time, or at the cap, and not before.
func TestLeaseExpires(t *testing.T) {
	for _, c := range []struct{ ask, max, want time.Duration }{
		{10 * time.Second, time.Minute, 10 * time.Second},
		{time.Hour, 20 * time.Second, 20 * time.Second},
		{time.Hour, 0, time.Minute}, // the default
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{LeaseMax: c.max}))
			ns := namespace(t, s, "a", 4096)
			slots := fill(t, ns)
			if m := leaseOf(t, ns, c.ask, 0, 1, 2); m.Leased != 3 {
				t.Fatalf("%+v", m)
			}
			time.Sleep(c.want - time.Millisecond)
			press(t, ns, 10000, 2*slots)
			all(t, noTouch(t, ns, 0, 1, 2), engine.Hit)
			time.Sleep(time.Millisecond)
			press(t, ns, 20000, 2*slots)
			all(t, noTouch(t, ns, 0, 1, 2), engine.Miss)
			if st := s.Stat(); st.Leases != 0 || st.LeasedBlocks != 0 {
				t.Errorf("%d leases of %d blocks after the end", st.Leases, st.LeasedBlocks)
			}
			mustClose(t, s)
		})
	}
}

// TestIdleLeaseIsNotCounted: a lease that is over is not in the statistics,
// though nobody has asked for room since.
func TestIdleLeaseIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		leaseOf(t, ns, time.Second, 0)
		if st := s.Stat(); st.Leases != 1 || st.LeasedBlocks != 1 {
			t.Errorf("%d leases of %d blocks", st.Leases, st.LeasedBlocks)
		}
		time.Sleep(5 * time.Second)
		if st := s.Stat(); st.Leases != 0 || st.LeasedBlocks != 0 {
			t.Errorf("%d leases of %d blocks after the end", st.Leases, st.LeasedBlocks)
		}
		mustClose(t, s)
	})
}

// TestDeleteAndDropBeatALease.
func TestDeleteAndDropBeatALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0, 1, 2), engine.Stored)
		m := leaseOf(t, ns, time.Minute, 0, 1, 2)
		if n, err := ns.Delete(keysOf(0)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		all(t, get(t, ns, 0), engine.Miss)
		if st := s.Stat(); st.LeasedBlocks != 2 {
			t.Errorf("%d blocks leased, want 2", st.LeasedBlocks)
		}
		must(t, ns.Drop())
		all(t, get(t, ns, 0, 1, 2), engine.Miss)
		if st := s.Stat(); st.LeasedBlocks != 0 {
			t.Errorf("%d blocks leased after a drop", st.LeasedBlocks)
		}
		// The numbers of the dropped blocks are used again; the old lease must
		// not count for the new blocks.
		all(t, put(t, ns, engine.PutOptions{}, 5, 6, 7), engine.Stored)
		leaseOf(t, ns, time.Minute, 5, 6, 7)
		ns.Release(m.Lease)
		if st := s.Stat(); st.LeasedBlocks != 3 || st.Leases != 1 {
			t.Errorf("%d leases of %d blocks, want 1 of 3", st.Leases, st.LeasedBlocks)
		}
		slots := ns.Stat().Slots
		press(t, ns, 10000, 3*slots)
		all(t, noTouch(t, ns, 5, 6, 7), engine.Hit)
		mustClose(t, s)
	})
}

// TestLeaseOfReusedNumber: a lease on a block that went ends without touching
// the block that has its number now.
func TestLeaseOfReusedNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		first := leaseOf(t, ns, time.Minute, 1)
		if n, err := ns.Delete(keysOf(1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		all(t, put(t, ns, engine.PutOptions{}, 2), engine.Stored) // record number 1 again
		second := leaseOf(t, ns, time.Minute, 2)
		ns.Release(first.Lease)
		if st := s.Stat(); st.LeasedBlocks != 1 {
			t.Errorf("%d blocks leased, want 1", st.LeasedBlocks)
		}
		ns.Release(second.Lease)
		if st := s.Stat(); st.LeasedBlocks != 0 || st.Leases != 0 {
			t.Errorf("%d leases of %d blocks", st.Leases, st.LeasedBlocks)
		}
		mustClose(t, s)
	})
}

// TestLeaseOfAnotherNamespace: a namespace cannot release what is not its own.
func TestLeaseOfAnotherNamespace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		a, b := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
		all(t, put(t, a, engine.PutOptions{}, 1), engine.Stored)
		m := leaseOf(t, a, time.Minute, 1)
		b.Release(m.Lease)
		if st := s.Stat(); st.LeasedBlocks != 1 {
			t.Error("the lease is gone")
		}
		mustClose(t, s)
	})
}

// TestEverythingLeased: a put says no within its bound, at once if so asked, and
// goes on as soon as a lease ends.
func TestEverythingLeased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{LeaseShare: 1, LeaseMax: time.Hour}))
		ns := namespace(t, s, "a", 4096)
		slots := fill(t, ns)
		m := leaseOf(t, ns, 30*time.Second, sequence(0, slots)...)
		if m.Leased != slots {
			t.Fatalf("%d of %d leased", m.Leased, slots)
		}
		try := func(o engine.PutOptions, want engine.Status, took time.Duration) {
			t.Helper()
			start := time.Now()
			item := []engine.PutItem{{Key: key(10000), Src: [][]byte{content(10000, 4096)}}}
			must(t, ns.Put(item, o))
			if item[0].Status != want || time.Since(start) != took {
				t.Errorf("%v after %v, want %v after %v", item[0].Status, time.Since(start), want, took)
			}
			if want == engine.Dropped {
				wantErr(t, item[0].Err, engine.ErrNoSpace)
			}
		}
		try(engine.PutOptions{DropIfBusy: true}, engine.Dropped, 0)
		try(engine.PutOptions{}, engine.Dropped, 10*time.Second)
		try(engine.PutOptions{Deadline: time.Now().Add(300 * time.Millisecond), Released: func(int) {}}, engine.Late, 300*time.Millisecond)
		all(t, noTouch(t, ns, sequence(0, slots)...), engine.Hit)
		go func() {
			time.Sleep(3 * time.Second)
			ns.Release(m.Lease)
		}()
		start := time.Now()
		all(t, put(t, ns, engine.PutOptions{}, 10000), engine.Stored)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("stored after %v, the lease ended after 3 s", d)
		}
		// A lease that ends by itself frees the put too.
		leaseOf(t, ns, 3*time.Second, append(sequence(0, slots), 10000)...)
		start = time.Now()
		all(t, put(t, ns, engine.PutOptions{}, 10001), engine.Stored)
		if d := time.Since(start); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("stored after %v, the lease ended after 3 s", d)
		}
		mustClose(t, s)
	})
}

// TestLeasesAreBounded: however often blocks are leased, the memory of all leases
// together has a bound; ending one makes room again.
func TestLeasesAreBounded(t *testing.T) {
	const each, promisesMax = 256, 1 << 21
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{LeaseShare: 1}))
		ns := namespace(t, s, "a", 4096)
		blocks := sequence(0, each)
		all(t, put(t, ns, engine.PutOptions{}, blocks...), engine.Stored)
		keys := keysOf(blocks...)
		lease := func(want int) engine.LeaseID {
			t.Helper()
			m, err := ns.Match(keys, engine.MatchOptions{Lease: 30 * time.Second})
			must(t, err)
			if m.Prefix != each || m.Leased != want {
				t.Fatalf("%d of %d blocks present, %d leased, want %d", m.Prefix, each, m.Leased, want)
			}
			return m.Lease
		}
		first := lease(each)
		for range promisesMax/each - 1 {
			lease(each)
		}
		if id := lease(0); id != 0 {
			t.Fatalf("lease %d of nothing", id)
		}
		ns.Release(first)
		lease(each)
		lease(0)
		time.Sleep(time.Minute)
		lease(each)
		time.Sleep(time.Minute)
		if st := s.Stat(); st.Leases != 0 || st.LeasedBlocks != 0 {
			t.Fatalf("%d leases of %d blocks stay", st.Leases, st.LeasedBlocks)
		}
		mustClose(t, s)
	})
}

// TestLeasedUnimportantBlocks: blocks of the lowest importance under a lease neither
// keep others from being evicted nor go themselves; once the lease is over they go
// first again.
func TestLeasedUnimportantBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		slots := ns.Stat().Slots
		putOf := func(importance uint8, o engine.PutOptions, n int) engine.Status {
			items := []engine.PutItem{{Key: key(n), Src: [][]byte{content(n, 4096)}, Importance: importance}}
			must(t, ns.Put(items, o))
			return items[0].Status
		}
		for n := range slots { // block 0 to 9 count least
			importance := uint8(1)
			if n < 10 {
				importance = 0
			}
			all(t, []engine.Status{putOf(importance, engine.PutOptions{}, n)}, engine.Stored)
		}
		if m := leaseOf(t, ns, time.Minute, sequence(0, 10)...); m.Leased != 10 {
			t.Fatalf("%+v", m)
		}
		began := time.Now()
		for n := range 50 {
			all(t, []engine.Status{putOf(1, engine.PutOptions{}, 1000+n)}, engine.Stored)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("50 puts took %v", took)
		}
		all(t, get(t, ns, sequence(0, 10)...), engine.Hit)
		leaseOf(t, ns, time.Minute, sequence(0, 10)...)
		time.Sleep(2 * time.Minute)
		for n := range 10 {
			all(t, []engine.Status{putOf(1, engine.PutOptions{}, 2000+n)}, engine.Stored)
		}
		all(t, get(t, ns, sequence(0, 10)...), engine.Miss)
		mustClose(t, s)
	})
}
