package worth

import (
	"math/bits"
	"sync"
	"time"
)

const (
	// stopAt and startAt are how much longer than computing loading must take before it is
	// declined, and how much shorter before it is taken up again: in between everything
	// stays as it is.
	stopAt  = 1.1
	startAt = 0.9
	// ProbeTime is how often one load is let through while loads are declined: without
	// it nobody would notice that the drive has become quick again.
	ProbeTime = time.Second
	lengths   = 18
)

// Judge decides for one namespace. Prefixes of about one length share a decision, each
// power of two of blocks its own: a long one may be worth its load where a short one
// is not. It may be used by many goroutines. The zero value has declined nothing.
type Judge struct {
	mu     sync.Mutex
	states [lengths]state
}

type state struct {
	declines bool
	probed   time.Time
}

// Worth reports whether to load a prefix of so many blocks, which takes load as far as
// was measured (0: nothing was) and compute to compute (0: unknown). What is not known is
// worth it: only a measurement declines.
func (j *Judge) Worth(now time.Time, blocks int, load, compute time.Duration) bool {
	if blocks == 0 || compute <= 0 {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.states[min(bits.Len(uint(blocks)), lengths-1)]
	switch {
	case load <= 0, float64(load) < startAt*float64(compute):
		s.declines = false
	case !s.declines && float64(load) > stopAt*float64(compute):
		s.declines, s.probed = true, now
	}
	if s.declines && now.Sub(s.probed) >= ProbeTime {
		s.probed = now
		return true
	}
	return !s.declines
}
