package node

import "time"

// What is fetched ahead is in nobody's way: it begins only when no load runs and nothing
// else waits, and little of it runs at once.

const (
	// prefetchWindow is how many bytes of prefetches a drive gets at once, and
	// prefetchTime how long it may take for them: a load that comes waits no longer.
	prefetchWindow = 8 << 20
	prefetchTime   = 5 * time.Millisecond
)

// quietLocked says that nobody would notice a prefetch.
func (d *drive) quietLocked() bool {
	return d.running[loads] == 0 && len(d.waiting[loads]) == 0 && len(d.waiting[stores]) == 0
}

// prefetchWindowLocked is as much as the drive reads within prefetchTime at the
// measured rate; 0, which lets one run at a time, before there is one.
func (d *drive) prefetchWindowLocked() int64 {
	return min(d.readInLocked(prefetchTime), d.windows.prefetches)
}

// readIn is how much the drive reads in a time, at the measured rate; 0 before there is
// one.
func (d *drive) readIn(time time.Duration) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readInLocked(time)
}

func (d *drive) readInLocked(time time.Duration) int64 {
	for _, c := range []class{loads, prefetches} {
		if t := d.rates[c].TimeFor(1 << 30); t > 0 {
			return int64(float64(1<<30) * time.Seconds() / t.Seconds())
		}
	}
	return 0
}

// prefetchChunk is how much to prefetch at once.
func (d *drive) prefetchChunk() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.prefetchWindowLocked() / fetchWorkers
}
