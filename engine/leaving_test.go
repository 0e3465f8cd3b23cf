package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestLeavingTakesNoLease: a lease given while segments are on their way out covers
// blocks that stay, and no others: what Match has promised is there to its end.
func TestLeavingTakesNoLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t)
		var first engine.MatchResult
		c.s.OnTurn(func() {
			if first.Lease == 0 {
				first = leaseOf(t, c.a, 30*time.Second, sequence(0, c.slots)...)
			}
		})
		must(t, c.a.SetQuota(c.oneSegment()))
		c.s.OnTurn(nil)
		before := 0
		for _, is := range first.Present {
			if is {
				before++
			}
		}
		// The rest of the leaving segment was present still, and not leased.
		if first.Leased == 0 || first.Leased >= before {
			t.Fatalf("%d of %d present blocks leased", first.Leased, before)
		}
		if st := c.s.Stat(); st.LeasedBlocks != first.Leased {
			t.Errorf("of %d leased blocks %d are left", first.Leased, st.LeasedBlocks)
		}
		time.Sleep(time.Minute) // then the quota takes what the lease held
		if st := c.a.Stat(); st.Segments != 1 {
			t.Errorf("%+v after the lease, the quota is one segment", st)
		}
		mustClose(t, c.s)
	})
}

// TestPutsWhileSegmentsLeave: puts at every turn are stored, even those that do not
// want to wait, and cost no more than one block each.
func TestPutsWhileSegmentsLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t)
		evicted, next := c.s.Stat().Counters.Evicted, 5_000_000
		c.s.OnTurn(func() {
			if next == 5_000_000 { // at the first turn; what leaves is the youngest now, so that what stays is asked to go
				_, err := c.a.Touch(keysOf(sequence(0, c.slots)...))
				must(t, err)
			}
			from := next
			next += 8
			all(t, put(t, c.a, engine.PutOptions{DropIfBusy: true}, sequence(from, 8)...), engine.Stored)
			all(t, get(t, c.a, sequence(from, 8)...), engine.Hit)
		})
		must(t, c.a.SetQuota(2*c.oneSegment()))
		c.s.OnTurn(nil)
		st := c.a.Stat()
		stayed := c.slots * st.Segments / (st.Segments + 1)
		if st.Segments != 2 || next < 5_000_016 || st.Blocks < stayed-64 {
			t.Errorf("%d puts, %d blocks evicted: %+v, of %d blocks before", next-5_000_000, c.s.Stat().Counters.Evicted-evicted, st, c.slots)
		}
		all(t, get(t, c.a, sequence(5_000_000, next-5_000_000)...), engine.Hit)
		mustClose(t, c.s)
	})
}

// TestManyHeldVictims: a put that does not want to wait finds the one block that may go
// behind more leased ones than one hold of the lock walks over, and is refused at
// once when there is none.
func TestManyHeldVictims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t)
		if m := leaseOf(t, c.a, 30*time.Second, sequence(0, c.slots-1)...); m.Leased != c.slots-1 {
			t.Fatalf("%d of %d blocks leased", m.Leased, c.slots)
		}
		began := time.Now()
		all(t, put(t, c.a, engine.PutOptions{DropIfBusy: true}, 1_000_000), engine.Stored)
		all(t, noTouch(t, c.a, c.slots-1), engine.Miss)
		leaseOf(t, c.a, 30*time.Second, 1_000_000)
		all(t, put(t, c.a, engine.PutOptions{DropIfBusy: true}, 1_000_001), engine.Dropped)
		if took := time.Since(began); took > time.Second { // virtual time
			t.Errorf("two puts that do not wait took %v", took)
		}
		// When the leases are over a put is not refused, though no watcher has looked yet.
		time.Sleep(30 * time.Second)
		all(t, put(t, c.a, engine.PutOptions{DropIfBusy: true}, 1_000_001), engine.Stored)
		mustClose(t, c.s)
	})
}

// TestLeasedSegmentLeaves: on a full file system a segment goes whatever is leased in
// it; puts that do not want to wait find what may go behind it.
func TestLeasedSegmentLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowdOn(t, sim.Config{CapacityBytes: 20 << 20})
		leaseOf(t, c.a, time.Minute, sequence(0, c.slots-64)...)
		space, err := c.r.session.Space()
		must(t, err)
		f, err := c.r.session.Create("somebody-else", space.FreeBytes)
		must(t, err)
		must(t, f.Close())
		turns := 0
		c.s.OnTurn(func() {
			if turns++; turns == 1 {
				for n := range 40 { // the first ones find room
					all(t, put(t, c.a, engine.PutOptions{DropIfBusy: true}, 1_000_000+n), engine.Stored)
				}
			}
			if err := c.s.CheckCounts(); err != nil {
				t.Error(err)
			}
		})
		segments := c.a.Stat().Segments
		time.Sleep(1200 * time.Millisecond) // the ballast goes; then the room it had
		space, err = c.r.session.Space()
		must(t, err)
		f, err = c.r.session.Create("somebody-else-too", space.FreeBytes)
		must(t, err)
		must(t, f.Close())
		time.Sleep(2 * time.Second)
		c.s.OnTurn(nil)
		if st := c.a.Stat(); st.Segments >= segments || turns < 2 {
			t.Errorf("%d turns, %+v", turns, st)
		}
		mustClose(t, c.s)
	})
}

// TestQuotaAwaitsOthers: a quota is held when SetQuota returns, also if it was the
// keeper who had begun to take the segment that is too many.
func TestQuotaAwaitsOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t)
		before, after, began := c.a.Stat().Segments, 0, false
		c.s.OnTurn(func() {
			if began {
				return
			}
			began = true
			must(t, c.a.SetQuota(int64(before-1)*c.oneSegment()))
			for _, name := range c.r.disk.Names() {
				if isSegment(name) {
					after++
				}
			}
		})
		all(t, put(t, c.b, engine.PutOptions{}, 1), engine.Stored)
		c.s.OnTurn(nil)
		if after != before-1 {
			t.Errorf("%d of %d segments are there, the quota is one less", after, before)
		}
		mustClose(t, c.s)
	})
}

// TestDropOverPutsInFlight: puts whose bytes are on their way when the namespace is
// dropped come to nothing, and their slots are not counted twice.
func TestDropOverPutsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t)
		c.r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 3 * time.Second})
		answers := make(chan []engine.Status)
		go func() { answers <- put(t, c.a, engine.PutOptions{}, sequence(5_000_000, 32)...) }()
		time.Sleep(time.Second)
		c.s.OnTurn(func() {
			if err := c.s.CheckCounts(); err != nil {
				t.Error(err)
			}
		})
		must(t, c.a.Drop())
		all(t, <-answers, engine.Dropped)
		c.r.disk.SetFaults(sim.Plan{})
		all(t, get(t, c.a, sequence(5_000_000, 32)...), engine.Miss)
		all(t, put(t, c.a, engine.PutOptions{}, sequence(5_000_000, 32)...), engine.Stored)
		mustClose(t, c.s)
	})
}
