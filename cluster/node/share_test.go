package node

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

// run moves bytes through the drive: it waits for its turn, takes as long as a drive
// of rate bytes per second would, and notes its end.
func run(d *drive, f *flow, c class, bytes int64, takes time.Duration, ended func()) {
	if turn, ok := d.enter(f, &stream{}, c, bytes, nil); ok {
		time.Sleep(takes)
		d.leave(turn, mib, bytes)
		ended()
	}
}

// TestSharesByWeight: two namespaces that always have something waiting get bytes in
// proportion to their weights, whatever the sizes of their transfers.
func TestSharesByWeight(t *testing.T) {
	for _, sizes := range [][2]int64{{mib, mib}, {16 * mib, mib}, {64 << 10, 16 * mib}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDrive(1<<40, time.Hour)
			flows := []*flow{{weight: 1}, {weight: 3}}
			var mu sync.Mutex
			var moved [2]int64
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for i, f := range flows {
				for range int(2*loadWindow/sizes[i]) + 1 {
					wg.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
							}
							run(d, f, loads, sizes[i], 10*time.Millisecond, func() {
								mu.Lock()
								moved[i] += sizes[i]
								mu.Unlock()
							})
						}
					})
				}
			}
			time.Sleep(10 * time.Second)
			close(stop)
			wg.Wait()
			if ratio := float64(moved[1]) / float64(moved[0]); ratio < 2.7 || ratio > 3.3 {
				t.Errorf("sizes %v: moved %v MiB, ratio %.2f", sizes, []int64{moved[0] / mib, moved[1] / mib}, ratio)
			}
		})
	}
}

// TestIdleShareIsNotSaved: who has not asked for a while gets no more than its share
// afterwards, and takes nothing while it is idle.
func TestIdleShareIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(1<<40, time.Hour)
		busy, late := &flow{weight: 1}, &flow{weight: 1}
		order := make(chan string, 1000)
		var wg sync.WaitGroup
		for range 100 { // the first four fill the window, which then shrinks to one
			wg.Go(func() { run(d, busy, loads, 16*mib, time.Second, func() { order <- "busy" }) })
		}
		time.Sleep(10*time.Second + time.Millisecond)
		for range 10 {
			wg.Go(func() { run(d, late, loads, 16*mib, time.Second, func() { order <- "late" }) })
		}
		wg.Wait()
		close(order)
		n, first, last := 0, 0, 0
		for who := range order {
			n++
			if who == "late" {
				if first == 0 {
					first = n
				}
				last = n
			}
		}
		// They came after 13; interleaved one to one they are done 20 later or so.
		if n != 110 || first > 17 || last < 28 || last > 40 {
			t.Errorf("of %d the latecomer's were %d to %d", n, first, last)
		}
	})
}

// TestLoadsBeforeStores: while loads wait, only a small window of stores runs, but some
// always do.
func TestLoadsBeforeStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(1<<40, time.Hour)
		f := &flow{weight: 1}
		var wg sync.WaitGroup
		most := func(c class) (n int64) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.running[c]
		}
		for range 100 {
			wg.Go(func() { run(d, f, stores, mib, 10*time.Millisecond, func() {}) })
		}
		synctest.Wait()
		if n := most(stores); n != storeWindow {
			t.Errorf("%d MiB of stores run alone", n/mib)
		}
		for range 1000 {
			wg.Go(func() { run(d, f, loads, mib, 10*time.Millisecond, func() {}) })
		}
		for range 5 {
			time.Sleep(10*time.Millisecond + time.Microsecond)
			synctest.Wait()
			if l, s := most(loads), most(stores); l > loadWindow || l < windowMin || s != storeWindowLoaded {
				t.Errorf("%d MiB of loads and %d MiB of stores run", l/mib, s/mib)
			}
		}
		wg.Wait()
		if most(loads) != 0 || most(stores) != 0 {
			t.Error("something runs for ever")
		}
	})
}

// TestLargerThanTheWindow: a transfer larger than any window runs alone.
func TestLargerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(1<<40, time.Hour)
		f := &flow{weight: 1}
		ended := 0
		for _, c := range []class{loads, stores} {
			run(d, f, c, 10*loadWindow, time.Second, func() { ended++ })
		}
		if ended != 2 {
			t.Errorf("%d of 2 ended", ended)
		}
	})
}

// TestAdmission: puts are refused beyond the bytes, and beyond the time that the
// measured rate needs; never while nothing waits.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(100*mib, 2*time.Second)
		f := &flow{weight: 1}
		if !d.admit(500 * mib) {
			t.Error("the first was refused")
		}
		d.discharge(500 * mib)
		for i := range 100 {
			if !d.admit(mib) {
				t.Fatalf("refused after %d MiB of 100, before any rate is known", i)
			}
		}
		if d.admit(mib) {
			t.Error("admitted beyond the bytes")
		}
		for range 100 { // 10 MiB a second
			run(d, f, stores, mib, 100*time.Millisecond, func() { d.discharge(mib) })
		}
		admitted := 0
		for d.admit(mib) {
			admitted++
		}
		if admitted != 20 {
			t.Errorf("admitted %d MiB at 10 MiB a second, for 2 s", admitted)
		}
		if n := d.stat().WriteBytesPerSecond; n < 9*mib || n > 11*mib {
			t.Errorf("measured %.1f MiB a second", n/mib)
		}
	})
}

// TestGivingUp: whoever leaves the queue takes nothing with it.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(1<<40, time.Hour)
		rng := rand.New(rand.NewPCG(1, 2))
		flows := []*flow{{weight: 1}, {weight: 5}}
		streams := make([]*stream, 100) // an even number: a request is one namespace's
		for i := range streams {
			streams[i] = &stream{}
		}
		var wg sync.WaitGroup
		for i := range 2000 {
			c, bytes, patience := class(rng.IntN(2)), rng.Int64N(32*mib)+1, time.Duration(rng.IntN(1000))*time.Millisecond
			wg.Go(func() {
				done := make(chan struct{})
				timer := time.AfterFunc(patience, func() { close(done) })
				defer timer.Stop()
				if turn, ok := d.enter(flows[i%2], streams[i%len(streams)], c, bytes, done); ok {
					time.Sleep(20 * time.Millisecond)
					d.leave(turn, mib, bytes)
				}
			})
		}
		wg.Wait()
		if st := d.stat(); st.LoadBytes != 0 || st.StoreBytes != 0 || st.LoadsWaiting != 0 || st.StoresWaiting != 0 {
			t.Errorf("left behind: %+v", st)
		}
	})
}

// TestLoadTime: a load takes as long as what goes before it and it itself, and nothing
// is said without a measurement.
func TestLoadTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(1<<40, time.Hour)
		f, other := &flow{weight: 1}, &flow{weight: 3}
		if n := d.loadTime(f, mib, mib); n != 0 {
			t.Errorf("%v before anything was measured", n)
		}
		for range 4 { // 640 MiB a second, as deep as it gets
			run(d, f, loads, loadWindow, 100*time.Millisecond, func() {})
		}
		if n := d.loadTime(f, mib, 64*mib); n < 99*time.Millisecond || n > 101*time.Millisecond {
			t.Errorf("64 MiB at 640 MiB a second take %v", n)
		}
		wants := func(what string, bytes int64, wantMiB int64) {
			t.Helper()
			if n := d.loadTime(f, mib, bytes); n/time.Millisecond != time.Duration(wantMiB*1000/640) {
				t.Errorf("%s: %v, want the time of %d MiB", what, n, wantMiB)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { run(d, f, loads, loadWindow, time.Second, func() {}) })
		synctest.Wait()
		wants("behind what runs", 16*mib, 64+16)
		for range 3 {
			wg.Go(func() { run(d, f, loads, 100*mib, time.Millisecond, func() {}) })
		}
		synctest.Wait()
		wants("beside three long requests of the namespace", 16*mib, 64+3*16+16)
		wants("beside three shorter ones", 200*mib, 64+300+200)
		for range 2 {
			wg.Go(func() { run(d, other, loads, 100*mib, time.Millisecond, func() {}) })
		}
		synctest.Wait()
		wants("beside a heavier namespace", 16*mib, 64+3*16+3*16+16)
		wg.Wait()
	})
}

// TestShortPassesLong: a request of one block waits for what runs, not for the long
// requests that came before it, of its own namespace or another's.
func TestShortPassesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inOrder := range []bool{false, true} {
			d := newDrive(1<<40, time.Hour)
			d.inOrder = inOrder
			own, other := &flow{weight: 1}, &flow{weight: 1}
			var wg sync.WaitGroup
			for i := range 8 { // 512 MiB each, half of them of another namespace
				s := &stream{}
				for range 32 {
					wg.Go(func() {
						if turn, ok := d.enter([]*flow{own, other}[i%2], s, loads, chunkBytes, nil); ok {
							time.Sleep(100 * time.Millisecond)
							d.leave(turn, mib, chunkBytes)
						}
					})
				}
			}
			synctest.Wait()
			began := time.Now()
			run(d, own, loads, mib, time.Millisecond, func() {})
			if took := time.Since(began); inOrder != (took > time.Second) || !inOrder && took > 250*time.Millisecond {
				t.Errorf("in order %v: %v", inOrder, took)
			}
			wg.Wait()
		}
	})
}
