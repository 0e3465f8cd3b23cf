package pool

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine/histogram"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// peerTimes are how long a peer takes to answer.
type peerTimes struct {
	fetches histogram.Histogram // of blocks, however many
	sizes   [sizeClasses]window // fetches, by their bytes

	mu      sync.Mutex
	running int        // fetches
	rate    admit.Rate // of their blocks
}

// begin notes that a fetch begins.
func (t *peerTimes) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == 0 {
		t.rate.Began(time.Now())
	}
	t.running++
}

// end notes that one has ended, which has moved so many bytes.
func (t *peerTimes) end(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rate.Ended(time.Now(), bytes)
	t.running--
}

// timeFor is how long so many bytes would take; 0 while that is not known.
func (t *peerTimes) timeFor(bytes int64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rate.TimeFor(bytes)
}

// sizeClasses are up to 64 KiB, 128 KiB and so on.
const sizeClasses = 12

func sizeClass(bytes int64) int { return min(bits.Len64(uint64(max(bytes-1, 0)>>16)), sizeClasses-1) }

func (t *peerTimes) fetched(bytes int64, took time.Duration) {
	t.fetches.Record(took.Nanoseconds())
	t.sizes[sizeClass(bytes)].add(took)
}

const (
	windowSamples = 64
	// windowKnown is how many samples it takes to speak of a P95.
	windowKnown = 20
)

// window is the latest few latencies.
type window struct {
	mu      sync.Mutex
	samples [windowSamples]time.Duration
	n       int // ever
}

func (w *window) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples[w.n%windowSamples] = d
	w.n++
}

// p95 is the latency that 19 of 20 stay within; ok is false while too few are known.
func (w *window) p95() (d time.Duration, ok bool) {
	w.mu.Lock()
	n := min(w.n, windowSamples)
	sorted := slices.Clone(w.samples[:n])
	w.mu.Unlock()
	if n < windowKnown {
		return 0, false
	}
	slices.Sort(sorted)
	return sorted[(n*95+99)/100-1], true
}
