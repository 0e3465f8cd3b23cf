package engine_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// releases notes when each item was released.
type releases struct {
	mu    sync.Mutex
	start time.Time
	at    map[int][]time.Duration
}

func newReleases() *releases { return &releases{start: time.Now(), at: map[int][]time.Duration{}} }

func (r *releases) note(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[i] = append(r.at[i], time.Since(r.start))
}

// times is how often item i was released.
func (r *releases) times(i int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at[i])
}

// all is how many items were released.
func (r *releases) all() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at)
}

// want wants item i released exactly once, at that time.
func (r *releases) want(t testing.TB, i int, at time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.at[i]; len(got) != 1 || got[0] != at {
		t.Errorf("item %d was released at %v, want once at %v", i, got, at)
	}
}

func getItems(blockBytes int, aligned bool, blocks ...int) []engine.GetItem {
	items := make([]engine.GetItem, len(blocks))
	for i, n := range blocks {
		dst := device.AlignedBuffer(blockBytes+1, 4096)
		if !aligned {
			dst = dst[1:]
		}
		items[i] = engine.GetItem{Key: key(n), Dst: [][]byte{dst[:blockBytes:blockBytes]}}
	}
	return items
}

// TestLateThenReleased: at the deadline the answer is Late; the destination is
// released when the last transfer into it has ended: at once for framed reads.
// (Pitfall P23: a drive that takes 30 s.)
func TestLateThenReleased(t *testing.T) {
	const slow, deadline = 30 * time.Second, 100 * time.Millisecond
	for name, c := range map[string]struct {
		aligned, bounce bool
		released        time.Duration
	}{
		"direct": {true, false, slow},
		"framed": {false, false, deadline},
		"bounce": {true, true, deadline},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sim.Config{})
				s := r.open(small(engine.Options{}))
				ns := namespace(t, s, "a", 4096)
				all(t, put(t, ns, engine.PutOptions{}, 0, 1), engine.Stored)
				r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: slow})
				items := getItems(4096, c.aligned, 0, 99, 1)
				rel := newReleases()
				must(t, ns.Get(items, engine.GetOptions{Deadline: rel.start.Add(deadline), Bounce: c.bounce, Released: rel.note}))
				if d := time.Since(rel.start); d != deadline {
					t.Errorf("answered after %v", d)
				}
				all(t, []engine.Status{items[0].Status, items[2].Status}, engine.Late)
				all(t, []engine.Status{items[1].Status}, engine.Miss)
				if c.released == deadline { // the memory is ours again
					rel.want(t, 0, deadline)
					clear(items[0].Dst[0])
				}
				time.Sleep(slow - deadline)
				r.disk.SetFaults(sim.Plan{})
				if st := s.Stat(); st.Health != "sick" {
					t.Errorf("health %q with a drive that takes %v", st.Health, slow)
				}
				time.Sleep(5 * time.Minute) // until it counts as well again
				rel.want(t, 0, c.released)
				rel.want(t, 2, c.released)
				if rel.times(1) != 0 {
					t.Error("the miss was released")
				}
				if c.released == deadline && !bytes.Equal(items[0].Dst[0], make([]byte, 4096)) {
					t.Error("memory was written after its release")
				}
				all(t, get(t, ns, 0, 1), engine.Hit)
				if st := s.Stat(); st.Counters.LateReads != 2 || st.FramesInUse != 0 {
					t.Errorf("%+v", st)
				}
				mustClose(t, s)
			})
		})
	}
}

// TestBounceNeedsNoReleased: a bounced read with a deadline may leave Released out.
func TestBounceNeedsNoReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := getItems(4096, true, 0)
		must(t, ns.Get(items, engine.GetOptions{Deadline: time.Now().Add(time.Millisecond), Bounce: true}))
		all(t, []engine.Status{items[0].Status}, engine.Late)
		time.Sleep(2 * time.Second)
		mustClose(t, s)
	})
}

// TestDeadlineInTime: items that are answered before the deadline are hits and
// never released; the call returns with the last of them.
func TestDeadlineInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0, 1), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := getItems(4096, true, 0, 1)
		rel := newReleases()
		must(t, ns.Get(items, engine.GetOptions{Deadline: rel.start.Add(2 * time.Second), Released: rel.note}))
		if d := time.Since(rel.start); d != time.Second {
			t.Errorf("answered after %v", d)
		}
		all(t, []engine.Status{items[0].Status, items[1].Status}, engine.Hit)
		time.Sleep(5 * time.Second)
		if n := rel.all(); n != 0 {
			t.Errorf("%d items were released", n)
		}
		mustClose(t, s)
	})
}

// TestDeadlinePassed: a deadline that lies behind is answered without waiting.
func TestDeadlinePassed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := getItems(4096, true, 0, 5)
		rel := newReleases()
		must(t, ns.Get(items, engine.GetOptions{Deadline: rel.start.Add(-time.Second), Released: rel.note}))
		src := []engine.PutItem{{Key: key(7), Src: [][]byte{content(7, 4096)}}}
		put := newReleases()
		must(t, ns.Put(src, engine.PutOptions{Deadline: rel.start.Add(-time.Second), Released: put.note}))
		if d := time.Since(rel.start); d != 0 {
			t.Errorf("answered after %v", d)
		}
		all(t, []engine.Status{items[0].Status, src[0].Status}, engine.Late)
		all(t, []engine.Status{items[1].Status}, engine.Miss)
		time.Sleep(5 * time.Second)
		if rel.times(0) != 1 || rel.times(1) != 0 || put.times(0) != 1 {
			t.Errorf("released %d, %d and %d times", rel.times(0), rel.times(1), put.times(0))
		}
		mustClose(t, s)
	})
}

// TestDeadlineWithoutFrames: items that still wait for a frame at the deadline
// are late and released at once.
func TestDeadlineWithoutFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{FrameBytes: 2 * 8192}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 8)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := getItems(oddBytes, true, sequence(0, 8)...)
		rel := newReleases()
		must(t, ns.Get(items, engine.GetOptions{Deadline: rel.start.Add(1500 * time.Millisecond), Released: rel.note}))
		if d := time.Since(rel.start); d != 1500*time.Millisecond {
			t.Errorf("answered after %v", d)
		}
		for i := range items {
			want := engine.Late // 0 and 1 had the frames first: root first
			if i < 2 {
				want = engine.Hit
			}
			if items[i].Status != want {
				t.Errorf("item %d: %v, want %v", i, items[i].Status, want)
			}
			if want == engine.Late {
				rel.want(t, i, 1500*time.Millisecond)
			}
		}
		time.Sleep(5 * time.Second)
		if n := rel.all(); n != 6 {
			t.Errorf("%d items were released, want 6", n)
		}
		mustClose(t, s)
	})
}

// TestDeadlineWithoutTransfers: the same at the bound of transfers, with
// direct reads.
func TestDeadlineWithoutTransfers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{QueueDepth: 32, QueueOps: 40})) // 24 transfers
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 60)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := getItems(4096, true, sequence(0, 60)...)
		rel := newReleases()
		must(t, ns.Get(items, engine.GetOptions{Deadline: rel.start.Add(1500 * time.Millisecond), Released: rel.note}))
		for i := range items {
			switch {
			case i < 24:
				if items[i].Status != engine.Hit {
					t.Errorf("item %d: %v", i, items[i].Status)
				}
			case items[i].Status != engine.Late:
				t.Errorf("item %d: %v", i, items[i].Status)
			case i >= 48: // never handed over
				rel.want(t, i, 1500*time.Millisecond)
			}
		}
		time.Sleep(5 * time.Second)
		for i := 24; i < 48; i++ {
			rel.want(t, i, 2*time.Second)
		}
		mustClose(t, s)
	})
}

// TestCloseWaitsForLateTransfers: Close returns after the last release.
func TestCloseWaitsForLateTransfers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := getItems(4096, true, 0)
		src := []engine.PutItem{{Key: key(7), Src: [][]byte{content(7, 4096)}}}
		gets, puts := newReleases(), newReleases()
		must(t, ns.Get(items, engine.GetOptions{Deadline: gets.start.Add(time.Millisecond), Released: gets.note}))
		must(t, ns.Put(src, engine.PutOptions{Deadline: gets.start.Add(2 * time.Millisecond), Released: puts.note}))
		must(t, s.Close())
		gets.want(t, 0, time.Second)
		puts.want(t, 0, time.Second+time.Millisecond)
	})
}

// TestFewFrames: pitfall P02: four frames, batches of 64, again and again: each
// item exact or busy, and no frame stays lent.
func TestFewFrames(t *testing.T) {
	r := newRig(t, sim.Config{QueueDepth: 8, QueueOps: 64})
	s := r.open(small(engine.Options{FrameBytes: 4 * 8192}))
	ns := namespace(t, s, "a", oddBytes)
	all(t, put(t, ns, engine.PutOptions{}, sequence(0, 64)...), engine.Stored)
	for range 100 {
		all(t, get(t, ns, sequence(0, 64)...), engine.Hit, engine.Busy)
		noFrames(t, s)
	}
	var wg sync.WaitGroup
	for who := range 8 {
		wg.Go(func() {
			for range 20 {
				all(t, get(t, ns, sequence(who*8, 16-who)...), engine.Hit, engine.Busy, engine.Miss)
				all(t, put(t, ns, engine.PutOptions{}, sequence(100+who*10, 10)...), engine.Stored, engine.Present)
			}
		})
	}
	wg.Wait()
	all(t, get(t, ns, 1), engine.Hit)
	mustClose(t, s)
}

// TestDoneIsADeadline: a caller that closes Done is answered Late at that moment,
// for gets and puts, and its memory is released when the transfers have ended.
func TestDoneIsADeadline(t *testing.T) {
	const slow, after = 3 * time.Second, 100 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0, 1), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: slow})
		for _, deadline := range []time.Duration{0, time.Hour} { // Done alone, and before a deadline
			gets := getItems(4096, true, 0, 1)
			puts := []engine.PutItem{{Key: key(7), Src: [][]byte{device.AlignedBuffer(4096, 4096)}}, {Key: key(8), Src: [][]byte{device.AlignedBuffer(4096, 4096)}}}
			got, stored := newReleases(), newReleases()
			done := make(chan struct{})
			time.AfterFunc(after, func() { close(done) })
			var until time.Time
			if deadline > 0 {
				until = time.Now().Add(deadline)
			}
			var wg sync.WaitGroup
			wg.Go(func() { must(t, ns.Get(gets, engine.GetOptions{Deadline: until, Done: done, Released: got.note})) })
			wg.Go(func() { must(t, ns.Put(puts, engine.PutOptions{Deadline: until, Done: done, Released: stored.note})) })
			wg.Wait()
			if d := time.Since(got.start); d != after {
				t.Errorf("answered after %v", d)
			}
			all(t, []engine.Status{gets[0].Status, gets[1].Status, puts[0].Status, puts[1].Status}, engine.Late)
			time.Sleep(slow)
			for i := range 2 {
				got.want(t, i, slow)
				stored.want(t, i, slow)
			}
			if _, err := ns.Delete([]engine.Key{key(7), key(8)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{ns.Get(getItems(4096, true, 0), engine.GetOptions{Done: make(chan struct{})}),
			ns.Put([]engine.PutItem{{Key: key(7), Src: [][]byte{make([]byte, 4096)}}}, engine.PutOptions{Done: make(chan struct{})})} {
			if !errors.Is(err, engine.ErrConfig) {
				t.Errorf("Done without Released: %v", err)
			}
		}
		r.disk.SetFaults(sim.Plan{})
		mustClose(t, s)
	})
}
