package pool

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
)

const (
	breakerFailures = 3
	breakerMin      = 500 * time.Millisecond
	breakerMax      = 8 * time.Second
	// doubtGap is the least time between probes of a peer that answers them.
	doubtGap = 100 * time.Millisecond
)

// breaker keeps requests away from a peer that does not answer. After breakerFailures
// calls in a row that failed or timed out it opens; then the keeper probes, after a pause
// that doubles, and the first answer closes it. A request is never the probe.
type breaker struct {
	failures int // in a row
	open     bool
	pause    time.Duration // between probes, while open
	inDoubt  bool          // a call was given up: probe
	probing  bool          // a probe is under way
	judged   time.Time     // the latest answer, or failure
	trips    uint64        // how often it has opened
}

func (b *breaker) String() string {
	switch {
	case b.open && b.probing:
		return "half-open"
	case b.open:
		return "open"
	}
	return "closed"
}

// judge takes in how a call ended.
func (b *breaker) judge(well bool, now time.Time) {
	b.judged, b.inDoubt, b.probing = now, false, false
	switch {
	case well:
		b.failures, b.open, b.pause = 0, false, 0
	case b.open:
		b.pause = min(2*b.pause, breakerMax)
	default:
		if b.failures++; b.failures >= breakerFailures {
			b.open, b.pause = true, breakerMin
			b.trips++
		}
	}
}

// nextProbe is when a probe is due; zero: none is.
func (b *breaker) nextProbe() time.Time {
	switch {
	case b.open:
		return b.judged.Add(b.pause)
	case b.failures > 0:
		return b.judged
	case b.inDoubt:
		return b.judged.Add(doubtGap)
	}
	return time.Time{}
}

// judge takes in how a call ended that had its full time: any answer of the peer, refusals
// too, says that it lives.
func (r *remote) judge(err error) {
	_, refused := codeOf(err)
	well := err == nil || refused
	r.mu.Lock()
	was := r.breaker.open
	r.breaker.judge(well, time.Now())
	is := r.breaker.open
	r.mu.Unlock()
	if !well {
		r.counts.failures.Add(1)
		r.wake()
	}
	r.tellBreaker(was, is, err)
}

// tellBreaker writes into the journal that the breaker has opened, or closed.
func (r *remote) tellBreaker(was, is bool, cause error) {
	switch {
	case is && !was:
		r.pool.o.Journal.Add(journal.Broken, r.described().Name, "is asked for nothing until it answers a probe: %v", cause)
	case was && !is:
		r.pool.o.Journal.Add(journal.Mended, r.described().Name, "answers again")
	}
}

// doubt is called when a call was given up before its time: the peer may be well, and
// the keeper finds out.
func (r *remote) doubt() {
	r.mu.Lock()
	r.breaker.inDoubt = true
	r.mu.Unlock()
	r.wake()
}

func (r *remote) nextProbe() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.breaker.nextProbe()
}
