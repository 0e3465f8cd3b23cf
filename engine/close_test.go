package engine_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestCloseEndsWaitingPuts: a put that waits for room that nobody will make any
// more does not hold up Close.
func TestCloseEndsWaitingPuts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{LeaseShare: 1}))
		ns := namespace(t, s, "a", 4096)
		slots := fill(t, ns)
		leaseOf(t, ns, time.Minute, sequence(0, 2*slots)...)
		items := putItems(4096, 100000, 100001)
		ended := make(chan error)
		go func() { ended <- ns.Put(items, engine.PutOptions{}) }()
		synctest.Wait() // it waits
		began := time.Now()
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		must(t, <-ended)
		must(t, <-closed)
		if took := time.Since(began); took > time.Second {
			t.Errorf("closing took %v", took)
		}
		for i := range items {
			if items[i].Status != engine.Dropped || !errors.Is(items[i].Err, engine.ErrClosed) {
				t.Errorf("item %d: %v: %v", i, items[i].Status, items[i].Err)
			}
		}
	})
}

// TestUseDuringAndAfterClose: what needs no store that is open may be called
// while it closes and after that.
func TestUseDuringAndAfterClose(t *testing.T) {
	for range 10 {
		s := openTemp(t, t.TempDir(), engine.Options{CapacityBytes: 64 << 20})
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2, 3), engine.Stored)
		lease := leaseOf(t, ns, time.Hour, 1, 2, 3).Lease
		use := func() {
			s.Stat()
			ns.Stat()
			if _, err := s.FindNamespace("a"); err != nil {
				t.Error(err)
			}
			ns.Release(lease)
		}
		closed := make(chan struct{})
		var users sync.WaitGroup
		for range 2 {
			users.Go(func() {
				for {
					select {
					case <-closed:
						return
					default:
						use()
					}
				}
			})
		}
		must(t, s.Close())
		use()
		close(closed)
		users.Wait()
		wantErr(t, s.Close(), engine.ErrClosed)
		wantErr(t, ns.Get(nil, engine.GetOptions{}), engine.ErrClosed)
	}
}
