package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// crowd is a store whose segments have more slots than one hold of the lock walks
// over, full with blocks of namespace a, of which block 0 is the oldest.
type crowd struct {
	t     testing.TB
	r     *rig
	s     *engine.Store
	a, b  *engine.Namespace
	slots int // of a
	lease engine.LeaseID

	closed bool
}

func newCrowd(t testing.TB) *crowd { t.Helper(); return newCrowdOn(t, sim.Config{}) }

func newCrowdOn(t testing.TB, disk sim.Config) *crowd {
	t.Helper()
	r := newRig(t, disk)
	s := r.open(engine.Options{CapacityBytes: 20 << 20, SegmentBytes: 5 << 20, LeaseShare: 1, QueueOps: 32})
	c := &crowd{t: t, r: r, s: s, a: namespace(t, s, "a", 4096), b: namespace(t, s, "b", 4096)}
	c.slots = c.a.Stat().Slots
	for n := 0; n < c.slots; n += 64 {
		all(t, put(t, c.a, engine.PutOptions{}, sequence(n, min(64, c.slots-n))...), engine.Stored)
	}
	time.Sleep(2500 * time.Millisecond) // what the puts have begun comes to rest, and no second ends now
	if st := c.a.Stat(); st.Segments < 3 || st.Blocks/st.Segments < engine.HoldMax+100 {
		t.Fatalf("%+v is no crowd", st)
	}
	return c
}

// leaseMost leases all blocks but the youngest, with most of them parked by puts that
// want room.
func (c *crowd) leaseMost() {
	c.t.Helper()
	leased := c.slots - 100
	m := leaseOf(c.t, c.a, 30*time.Second, sequence(0, leased)...)
	if m.Leased != leased {
		c.t.Fatalf("%d of %d blocks leased", m.Leased, leased)
	}
	c.lease = m.Lease
	all(c.t, put(c.t, c.a, engine.PutOptions{}, sequence(1_000_000, 50)...), engine.Stored)
}

func (c *crowd) oneSegment() int64 { return c.s.Stat().SegmentBytes * 9 / 8 }

// longWorks walk over much more than one hold of the lock may, each in another way.
var longWorks = []struct {
	name    string
	prepare func(*crowd)
	do      func(*crowd) error
	config  bool // it changes the store file: other changes of that wait for it
}{
	{"quota", func(*crowd) {}, func(c *crowd) error { return c.a.SetQuota(c.oneSegment()) }, true},
	{"drop", func(*crowd) {}, func(c *crowd) error { return c.a.Drop() }, true},
	{"newcomer", func(*crowd) {}, func(c *crowd) error {
		item := []engine.PutItem{{Key: key(1), Src: [][]byte{content(1, 4096)}}}
		return errors.Join(c.b.Put(item, engine.PutOptions{}), item[0].Err)
	}, false},
	{"release", (*crowd).leaseMost, func(c *crowd) error { c.a.Release(c.lease); return nil }, false},
	{"expiry", (*crowd).leaseMost, func(*crowd) error { time.Sleep(32 * time.Second); return nil }, false},
	{"frees", func(*crowd) {}, func(c *crowd) error {
		_, err := c.a.Delete(keysOf(sequence(0, c.slots)...)) // as many keys as a caller likes, but their slots
		return err
	}, false},
}

// TestHoldsAreBounded: in one piece no more blocks go, promises end or slots open than
// one hold of the lock may walk over, and every count is right behind each piece.
func TestHoldsAreBounded(t *testing.T) {
	for _, work := range longWorks {
		t.Run(work.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCrowd(t)
				work.prepare(c)
				var before engine.Tally
				pieces := -1
				c.a.OnPiece(func(now engine.Tally) {
					pieces++
					switch {
					case pieces == 0:
					case now.Err != nil:
						t.Errorf("piece %d: %v", pieces, now.Err)
					case before.Blocks-now.Blocks > engine.HoldMax && work.name != "frees",
						before.Leased-now.Leased > engine.HoldMax, now.Free-before.Free > engine.HoldMax:
						t.Errorf("piece %d: from %+v to %+v", pieces, before, now)
					case now.Blocks > now.Slots:
						t.Errorf("piece %d: %+v", pieces, now)
					}
					before = now
				})
				must(t, work.do(c))
				c.s.OnTurn(nil)
				if pieces < 2 {
					t.Errorf("%d pieces", pieces)
				}
				mustClose(t, c.s)
			})
		})
	}
}

// actions are what may happen at a turn. Those that change the store file, or end the
// store, cannot end there if the long work itself does.
var actions = []struct {
	name   string
	do     func(*crowd) error
	config bool
}{
	{"put", func(c *crowd) error {
		put(c.t, c.a, engine.PutOptions{DropIfBusy: true}, sequence(5_000_000, 20)...)
		return nil
	}, false},
	{"put present", func(c *crowd) error {
		put(c.t, c.a, engine.PutOptions{DropIfBusy: true}, sequence(0, c.slots)...)
		return nil
	}, false},
	{"get", func(c *crowd) error {
		all(c.t, get(c.t, c.a, sequence(0, c.slots)...), engine.Hit, engine.Miss)
		return nil
	}, false},
	{"touch", func(c *crowd) error { _, err := c.a.Touch(keysOf(sequence(0, c.slots)...)); return err }, false},
	{"lease", func(c *crowd) error { leaseOf(c.t, c.a, 10*time.Second, sequence(0, c.slots)...); return nil }, false},
	{"lease and release", func(c *crowd) error {
		c.a.Release(leaseOf(c.t, c.a, 10*time.Second, sequence(0, c.slots)...).Lease)
		return nil
	}, false},
	{"release", func(c *crowd) error { c.a.Release(c.lease); return nil }, false},
	{"delete", func(c *crowd) error {
		_, err := c.a.Delete(keysOf(sequence(c.slots/4, c.slots/2)...))
		if errors.Is(err, engine.ErrGone) { // in a drop
			return nil
		}
		return err
	}, false},
	{"quota", func(c *crowd) error { return c.a.SetQuota(2 * c.oneSegment()) }, true},
	{"smaller quota", func(c *crowd) error { return c.a.SetQuota(c.oneSegment()) }, true},
	{"drop", func(c *crowd) error { return c.a.Drop() }, true},
	{"drop of another", func(c *crowd) error { return c.b.Drop() }, true},
	{"close", func(c *crowd) error { c.closed = true; return c.s.Close() }, true},
}

// TestAnythingAtATurn: whatever happens in the middle of a long work, both come to
// their ends, every count is right, no answer has wrong bytes, and what was erased
// stays so, also over a restart.
func TestAnythingAtATurn(t *testing.T) {
	for i, work := range longWorks {
		for j, action := range actions {
			if testing.Short() && (i+j)%5 != 0 {
				continue
			}
			t.Run(work.name+"/"+action.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					anythingAtATurn(t, newCrowd(t), work.prepare, work.do, action.do, work.config || action.name == "close")
				})
			})
		}
	}
}

func anythingAtATurn(t *testing.T, c *crowd, prepare func(*crowd), work, action func(*crowd) error, beside bool) {
	prepare(c)
	done := make(chan error, 1)
	var began atomic.Bool
	c.s.OnTurn(func() {
		if began.Swap(true) {
			return
		}
		if !beside {
			done <- action(c)
			return
		}
		started := make(chan struct{})
		go func() {
			close(started)
			done <- action(c)
		}()
		<-started
	})
	err := work(c)
	if err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrGone) {
		t.Errorf("the work: %v", err)
	}
	if !began.Load() {
		t.Fatal("no turn")
	}
	if err := <-done; err != nil {
		t.Errorf("the action: %v", err)
	}
	c.s.OnTurn(nil)
	time.Sleep(time.Minute) // leases end, too
	incarnation := c.a.Stat().Incarnation
	if !c.closed {
		mustClose(t, c.s)
	}
	c.s = c.r.open(engine.Options{})
	c.a = namespace(t, c.s, "a", 4096)
	must(t, c.s.CheckSlots())
	st := c.a.Stat()
	hits := 0
	for _, answer := range append(get(t, c.a, sequence(0, c.slots)...), get(t, c.a, sequence(5_000_000, 20)...)...) {
		if answer == engine.Hit {
			hits++
		}
	}
	if incarnation > 1 && hits > 20 || hits > st.Blocks || st.Incarnation != incarnation {
		t.Errorf("%d hits, incarnation %d before the end; %+v", hits, incarnation, st)
	}
	mustClose(t, c.s)
}
