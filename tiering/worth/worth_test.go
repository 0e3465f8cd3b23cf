package worth

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const mib = 1 << 20

var start = time.Unix(1e9, 0)

// drive is one whose rate rises with its depth, up to its limit: each block takes latency
// at least, and all together no more than bytesPerSecond.
type drive struct {
	latency        time.Duration
	bytesPerSecond float64
}

// takes is how long blocks in flight together take.
func (d drive) takes(blockBytes, blocks int) time.Duration {
	return max(d.latency, time.Duration(float64(blocks*blockBytes)/d.bytesPerSecond*1e9))
}

// TestRates: each class of size and depth has its own rate, a new drive's rate takes
// over, what is old is believed no more, and unmeasured classes are never called slower
// than they may be.
func TestRates(t *testing.T) {
	var r Rates
	now := start
	slow := drive{time.Millisecond, 4000 * mib}
	observe := func(d drive, blockBytes, blocks, times int) {
		for range times {
			took := d.takes(blockBytes, blocks)
			now = now.Add(took)
			r.Observe(now, blockBytes, int64(blocks*blockBytes), took)
		}
	}
	wants := func(what string, blockBytes, blocks int, want float64) {
		t.Helper()
		if got := r.BytesPerSecond(now, blockBytes, int64(blocks*blockBytes)) / mib; math.Abs(got-want) > want/50 {
			t.Errorf("%s: %.0f MiB/s, want %.0f", what, got, want)
		}
	}
	wants("nothing measured", mib, 1, 0)
	observe(slow, mib, 1, 2)
	wants("two are too few", mib, 1, 0)
	observe(slow, mib, 1, 20)
	observe(slow, mib, 32, 20)
	observe(slow, 64<<10, 64, 20)
	wants("one at a time", mib, 1, 1000)
	wants("deep", mib, 32, 4000)
	wants("small and deep", 64<<10, 64, 4000)
	wants("deeper than one: the next deeper", mib, 4, 4000)
	wants("smaller: the next larger", 256<<10, 64, 4000)
	wants("deeper than any", mib, 1000, 0)
	wants("larger than any", 4*mib, 1, 0)
	if n := len(r.All(now)); n != 3 {
		t.Errorf("%d classes", n)
	}
	observe(drive{time.Millisecond, 500 * mib}, mib, 32, 10000)
	wants("the drive has become slow", mib, 32, 500)
	now = now.Add(fresh + time.Second)
	wants("long ago", mib, 32, 0)
}

// TestJudge: only a measurement declines; around the break-even nothing changes; each
// second one load is let through; a quick drive is taken up at once.
func TestJudge(t *testing.T) {
	var j Judge
	now := start
	const compute = 100 * time.Millisecond
	asks := func(what string, load time.Duration, want bool) {
		t.Helper()
		now = now.Add(time.Millisecond)
		if got := j.Worth(now, 10, load, compute); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	asks("not measured", 0, true)
	asks("a little slower", 105*time.Millisecond, true)
	asks("slower", 120*time.Millisecond, false)
	asks("a little slower", 105*time.Millisecond, false)
	asks("a little quicker", 95*time.Millisecond, false)
	if !j.Worth(now, 1000, 0, compute) || !j.Worth(now, 10, time.Hour, 0) {
		t.Error("another length, or no compute time, declines")
	}
	now = now.Add(ProbeTime)
	asks("the probe", 200*time.Millisecond, true)
	asks("behind the probe", 200*time.Millisecond, false)
	asks("quicker", 80*time.Millisecond, true)
	asks("a little slower", 105*time.Millisecond, true)
	asks("slow again", time.Second, false)
	asks("no measurement any more", 0, true)
}

// TestNoFlapping: where loading takes as long as computing, give or take a few percent, the
// answer changes once at most; a drive that becomes slow, and quick again, is noticed
// within seconds, by the probes alone.
func TestNoFlapping(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r Rates
		var j Judge
		now := start
		const blocks = 16
		compute := time.Duration(float64(blocks*mib) / (1000 * mib) * 1e9)
		changes, declined, last := 0, 0, true
		run := func(mibPerSecond float64, d time.Duration) {
			changes, declined = 0, 0
			for end := now.Add(d); now.Before(end); now = now.Add(5 * time.Millisecond) {
				load := time.Duration(0)
				if rate := r.BytesPerSecond(now, mib, blocks*mib); rate > 0 {
					load = time.Duration(blocks * mib / rate * 1e9)
				}
				probed := j.states[5].probed
				is := j.Worth(now, blocks, load, compute)
				if is {
					took := time.Duration(blocks / (mibPerSecond * (0.95 + 0.1*rng.Float64())) * 1e9)
					now = now.Add(took)
					r.Observe(now, mib, blocks*mib, took)
				} else {
					declined++
				}
				if probe := j.states[5].probed != probed && j.states[5].declines; !probe && is != last {
					changes, last = changes+1, is
				}
			}
		}
		run(1000, time.Minute)
		if changes > 1 {
			t.Errorf("seed %d: %d changes at the break-even", seed, changes)
		}
		run(250, time.Minute)
		if changes > 1 || declined == 0 || last {
			t.Errorf("seed %d: a slow drive: %d changes, %d declined, now %v", seed, changes, declined, last)
		}
		run(4000, 2*time.Minute)
		if changes != 1 || !last {
			t.Errorf("seed %d: quick again: %d changes, now %v", seed, changes, last)
		}
	}
}
