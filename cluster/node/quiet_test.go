package node

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPrefetchesYield: a prefetch begins only when no load runs and nothing else waits,
// one at a time before the drive's rate is known, and as much as takes prefetchTime after.
func TestPrefetchesYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, f := newDrive(1<<40, time.Hour), &flow{weight: 1}
		var mu sync.Mutex
		var order []string
		var running, most [classes]int
		var wg sync.WaitGroup
		start := func(c class, bytes int64, takes time.Duration, name string) {
			wg.Go(func() {
				turn, _ := d.enter(f, &stream{}, c, bytes, nil)
				mu.Lock()
				order = append(order, name)
				if c == prefetches && running[loads] > 0 {
					t.Errorf("%s began beside %d loads", name, running[loads])
				}
				running[c]++
				most[c] = max(most[c], running[c])
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				running[c]--
				mu.Unlock()
				d.leave(turn, mib, bytes)
			})
			synctest.Wait()
		}
		start(loads, mib, 10*time.Millisecond, "load 1")
		for range 3 {
			start(prefetches, mib, time.Millisecond, "prefetch")
		}
		start(loads, mib, 10*time.Millisecond, "load 2")
		start(stores, mib, 30*time.Millisecond, "store")
		wg.Wait()
		if got := order; len(got) != 6 || got[0] != "load 1" || got[1] != "load 2" || got[2] != "store" || got[3] != "prefetch" {
			t.Errorf("order %v", got)
		}
		if most[prefetches] != 1 {
			t.Errorf("%d prefetches ran at once before the rate was known", most[prefetches])
		}
		for range 32 { // 1 MiB in 1 ms: 5 MiB take prefetchTime
			start(loads, mib, time.Millisecond, "load")
			wg.Wait()
		}
		most[prefetches] = 0
		for range 20 {
			start(prefetches, mib/2, time.Millisecond, "prefetch")
		}
		wg.Wait()
		if most[prefetches] < 5 || most[prefetches] > 11 {
			t.Errorf("%d prefetches of half a MiB ran at once", most[prefetches])
		}
		gone := make(chan struct{})
		start(loads, mib, 10*time.Millisecond, "load")
		time.AfterFunc(time.Millisecond, func() { close(gone) })
		if _, ok := d.enter(f, &stream{}, prefetches, mib, gone); ok {
			t.Error("a prefetch began beside a load")
		}
		wg.Wait()
	})
}
