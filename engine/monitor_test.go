package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// health waits until Stat().Health is what is wanted, in virtual time.
func health(t *testing.T, s *engine.Store, want string) {
	t.Helper()
	for range 300 {
		if s.Stat().Health == want {
			if err := s.Health(); errors.Is(err, engine.ErrSick) != (want == "sick") || (err == nil) != (want == "ok") {
				t.Errorf("health %q: %v", want, err)
			}
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("health %q (%s), want %q", s.Stat().Health, s.Stat().HealthCause, want)
}

// TestFailedDrive: a drive that answers errors is given up after a few slots,
// and used again, without a reopening, when it is well.
func TestFailedDrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 60)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, ReadEIO: 1, WriteEIO: 1})
		for n := range 60 {
			all(t, get(t, ns, n), engine.Miss)
		}
		health(t, s, "sick")
		st := s.Stat()
		if st.Counters.QuarantinedSlots > 16 || st.Counters.SickPeriods != 1 {
			t.Fatalf("%d slots quarantined, %d sick periods", st.Counters.QuarantinedSlots, st.Counters.SickPeriods)
		}
		items := []engine.PutItem{{Key: key(100), Src: [][]byte{content(100, 4096)}}}
		must(t, ns.Put(items, engine.PutOptions{}))
		if items[0].Status != engine.Dropped || !errors.Is(items[0].Err, engine.ErrSick) {
			t.Fatal(items[0].Status, items[0].Err)
		}
		time.Sleep(5 * time.Minute)
		health(t, s, "sick") // probes keep failing

		r.disk.SetFaults(sim.Plan{})
		health(t, s, "ok")
		hits := 0
		for n := range 60 {
			if get(t, ns, n)[0] == engine.Hit {
				hits++
			}
		}
		if hits < 60-16 {
			t.Fatalf("%d of 60 blocks came back", hits)
		}
		all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, 100), engine.Stored)
		mustClose(t, s)
	})
}

// TestStuckDrive: one transfer that never ends makes the drive sick; gets and
// puts are answered at once meanwhile, and service resumes when it ends.
func TestStuckDrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{StuckAfter: 3 * time.Second}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 10)...), engine.Stored)
		time.Sleep(10 * time.Second) // synced and written ahead: the next transfer is the get's
		synctest.Wait()
		r.disk.SetFaults(sim.Plan{Filter: isSegment, StuckOnce: 1})
		released := make(chan struct{})
		items := []engine.GetItem{{Key: key(1), Dst: [][]byte{device.AlignedBuffer(4096, 4096)}}}
		began := time.Now()
		must(t, ns.Get(items, engine.GetOptions{Deadline: began.Add(time.Second), Released: func(int) { close(released) }}))
		if items[0].Status != engine.Late || time.Since(began) != time.Second {
			t.Fatal(items[0].Status, time.Since(began))
		}
		time.Sleep(5 * time.Second)
		health(t, s, "sick")
		began = time.Now()
		all(t, get(t, ns, sequence(0, 10)...), engine.Miss)
		if time.Since(began) != 0 {
			t.Fatalf("a sick drive's misses took %v", time.Since(began))
		}
		select {
		case <-released:
			t.Fatal("released while in flight")
		default:
		}
		r.disk.SetFaults(sim.Plan{})
		<-released
		health(t, s, "ok")
		all(t, get(t, ns, sequence(0, 10)...), engine.Hit)
		mustClose(t, s)
	})
}

// TestFailSlow: a drive far slower than usual is told from a busy one.
func TestFailSlow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{MinLatency: time.Millisecond, MaxLatency: 2 * time.Millisecond})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		blocks := sequence(0, 40)
		all(t, put(t, ns, engine.PutOptions{}, blocks...), engine.Stored)
		for range 30 { // its usual self
			all(t, get(t, ns, blocks...), engine.Hit)
			time.Sleep(time.Second)
		}
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 20 * time.Millisecond})
		for range 10 { // ten times slower is only busy
			all(t, get(t, ns, blocks...), engine.Hit)
			time.Sleep(time.Second)
		}
		health(t, s, "ok")
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 800 * time.Millisecond})
		for range 10 {
			get(t, ns, blocks...)
			time.Sleep(time.Second)
		}
		if h := s.Stat().Health; h != "sick" {
			t.Fatalf("health %q", h)
		}
		r.disk.SetFaults(sim.Plan{})
		health(t, s, "ok")
		all(t, get(t, ns, blocks...), engine.Hit)
		synctest.Wait()
		mustClose(t, s)
	})
}

// TestBallast: on a full file system the ballast makes room, and it comes back
// when there is plenty.
func TestBallast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const capacity = 4 << 20
		r := newRig(t, sim.Config{CapacityBytes: capacity + 64<<10})
		s := r.open(small(engine.Options{CapacityBytes: capacity}))
		namespace(t, s, "a", 4096)
		if !holds(r, "BALLAST") {
			t.Fatal("no ballast in a new store")
		}
		mustClose(t, s)
		var free int64
		r.offline(func(dev device.Device) { // somebody else fills the rest
			space, err := dev.Space()
			must(t, err)
			free = space.FreeBytes - 4096
			f, err := dev.Create("intruder", free)
			must(t, err)
			must(t, f.Close())
		})
		s = r.open(engine.Options{})
		if holds(r, "BALLAST") {
			t.Fatal("the ballast stayed on a full file system")
		}
		ns, err := s.FindNamespace("a")
		must(t, err)
		put(t, ns, engine.PutOptions{}, 1, 2) // stored or dropped: it must only end
		mustClose(t, s)
		r.offline(func(dev device.Device) { must(t, dev.Remove("intruder")) })
		s = r.open(engine.Options{})
		ns, err = s.FindNamespace("a")
		must(t, err)
		all(t, put(t, ns, engine.PutOptions{}, 3), engine.Stored)
		if !holds(r, "BALLAST") {
			t.Fatal("the ballast did not come back")
		}
		mustClose(t, s)
	})
}

func holds(r *rig, name string) bool {
	for _, n := range r.disk.Names() {
		if n == name {
			return true
		}
	}
	return false
}

// TestStuckWhileGrowing: the keeper waits for the drive, in the middle of making a
// segment; that the drive is stuck is found out all the same.
func TestStuckWhileGrowing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{StuckAfter: 3 * time.Second}))
		ns, other := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 5)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Minute})
		soon := func() time.Time { return time.Now().Add(time.Second) }
		released := newReleases()
		puts := putItems(4096, 50) // needs a segment
		must(t, other.Put(puts, engine.PutOptions{Deadline: soon(), Released: released.note}))
		gets := getItems(4096, true, 1)
		must(t, ns.Get(gets, engine.GetOptions{Deadline: soon(), Released: released.note}))
		all(t, []engine.Status{puts[0].Status, gets[0].Status}, engine.Late)
		time.Sleep(10 * time.Second)
		health(t, s, "sick")
		began := time.Now()
		all(t, get(t, ns, 1, 2), engine.Miss)
		all(t, put(t, ns, engine.PutOptions{}, 60), engine.Dropped)
		if time.Since(began) != 0 {
			t.Fatalf("a sick drive's answers took %v", time.Since(began))
		}
		r.disk.SetFaults(sim.Plan{}) // what is on its way ends in a minute
		health(t, s, "ok")
		mustClose(t, s)
	})
}

// TestLongQueueIsNoSickness: a drive with more to do than it can in StuckAfter, but
// that keeps moving, is busy and not sick.
func TestLongQueueIsNoSickness(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{QueueDepth: 1, MinLatency: 50 * time.Millisecond, MaxLatency: 50 * time.Millisecond})
		s := r.open(small(engine.Options{StuckAfter: 2 * time.Second}))
		ns := namespace(t, s, "a", 4096)
		blocks := sequence(0, 200)
		for _, n := range blocks {
			all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
		}
		began := time.Now()
		all(t, get(t, ns, blocks...), engine.Hit)
		if time.Since(began) < 5*time.Second {
			t.Fatalf("the queue took %v only", time.Since(began))
		}
		all(t, put(t, ns, engine.PutOptions{}, sequence(1000, 200)...), engine.Stored)
		if c := s.Stat().Counters; c.SickPeriods != 0 {
			t.Errorf("%d sick periods", c.SickPeriods)
		}
		mustClose(t, s)
	})
}

// TestLargeBlocksAreNoSickness: blocks a hundred times as large take a hundred
// times as long.
func TestLargeBlocksAreNoSickness(t *testing.T) {
	if raced && testing.Short() {
		t.Skip("under the race detector in the long form only")
	}
	bubble(t, func(t *testing.T) {
		const large = 16 << 20
		r := newRig(t, sim.Config{MinLatency: time.Millisecond, MaxLatency: 2 * time.Millisecond})
		s := r.open(engine.Options{CapacityBytes: 1 << 30})
		small, big := namespace(t, s, "a", 4096), namespace(t, s, "b", large)
		all(t, put(t, small, engine.PutOptions{}, sequence(0, 40)...), engine.Stored)
		all(t, put(t, big, engine.PutOptions{}, 1), engine.Stored)
		for range 30 {
			all(t, get(t, small, sequence(0, 40)...), engine.Hit)
			time.Sleep(time.Second)
		}
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 250 * time.Millisecond})
		for range 10 {
			items := make([]engine.GetItem, 40)
			for i := range items {
				items[i] = engine.GetItem{Key: key(1), Dst: [][]byte{device.AlignedBuffer(large, 4096)}}
			}
			must(t, big.Get(items, engine.GetOptions{}))
			time.Sleep(time.Second)
		}
		if c := s.Stat().Counters; c.SickPeriods != 0 {
			t.Errorf("%d sick periods", c.SickPeriods)
		}
		mustClose(t, s)
	})
}
