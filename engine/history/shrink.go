package history

import (
	"strings"
	"testing"
	"time"
)

// Operations counts the operations of all clients.
func (h *History) Operations() (n int) {
	for _, l := range h.Lives {
		for _, ops := range l.Clients {
			n += len(ops)
		}
	}
	return n
}

// shrinkTries is how often a smaller history is run before it counts as sound:
// goroutines are not scheduled twice in the same way.
const shrinkTries = 4

// Shrink makes a failing history smaller as long as it fails in the same way,
// for at most limit of real time, and returns the smallest with its error.
func Shrink(t *testing.T, h *History, err error, limit time.Duration) (*History, error) {
	s := &shrinker{t: t, best: h, err: err, until: time.Now().Add(limit)}
	for smaller := true; smaller && time.Now().Before(s.until); {
		smaller = s.lives()
		smaller = s.clients() || smaller
		smaller = s.ops() || smaller
		smaller = s.plain() || smaller
	}
	return s.best, s.err
}

type shrinker struct {
	t     *testing.T
	best  *History
	err   error
	until time.Time
}

// try keeps the history that edit makes of a copy of the best, if it fails too.
func (s *shrinker) try(edit func(*History) bool) bool {
	h := s.best.clone()
	if time.Now().After(s.until) || !edit(h) {
		return false
	}
	for range shrinkTries {
		if res := Run(s.t, h); res.Err != nil && class(res.Err) == class(s.err) {
			s.best, s.err = h, res.Err
			return true
		}
	}
	return false
}

// class is the promise that was broken: what stands in capitals, if anything.
func class(err error) string {
	text := err.Error()
	for _, c := range []string{"WRONG BYTES", "ERASED BYTES", "LOST", "HEALTHY", "LEASE", "HANG", "CAPACITY", "SLOTS", "HEALTH"} {
		if strings.Contains(text, c) {
			return c
		}
	}
	return "other"
}

func (s *shrinker) lives() (smaller bool) {
	for i := len(s.best.Lives) - 1; i >= 0; i-- {
		smaller = s.try(func(h *History) bool {
			h.Lives = append(h.Lives[:i], h.Lives[i+1:]...)
			return true
		}) || smaller
	}
	return smaller
}

func (s *shrinker) clients() (smaller bool) {
	for i := range s.best.Lives {
		for c := len(s.best.Lives[i].Clients) - 1; c >= 0; c-- {
			smaller = s.try(func(h *History) bool {
				l := &h.Lives[i]
				l.EndAfterOps = max(l.EndAfterOps-len(l.Clients[c]), 1)
				l.Clients = append(l.Clients[:c], l.Clients[c+1:]...)
				return true
			}) || smaller
		}
	}
	return smaller
}

// ops removes runs of operations, halving their length.
func (s *shrinker) ops() (smaller bool) {
	for i := range s.best.Lives {
		for c := range s.best.Lives[i].Clients {
			for n := len(s.best.Lives[i].Clients[c]); n > 0; n /= 2 {
				for at := len(s.best.Lives[i].Clients[c]) - n; at >= 0; at -= n {
					smaller = s.try(func(h *History) bool {
						l := &h.Lives[i]
						if at+n > len(l.Clients[c]) {
							return false
						}
						l.EndAfterOps = max(l.EndAfterOps-n, 1)
						l.Clients[c] = append(l.Clients[c][:at], l.Clients[c][at+n:]...)
						return true
					}) || smaller
				}
			}
		}
	}
	return smaller
}

// plain takes faults and fancies away.
func (s *shrinker) plain() (smaller bool) {
	for i := range s.best.Lives {
		for f := len(s.best.Lives[i].Faults) - 1; f >= 0; f-- {
			smaller = s.try(func(h *History) bool {
				l := &h.Lives[i]
				l.Faults = append(l.Faults[:f], l.Faults[f+1:]...)
				return true
			}) || smaller
		}
		smaller = s.try(func(h *History) bool {
			l := &h.Lives[i]
			had := l.OpenFaults != nil || l.Sweep || len(l.Flips) > 0 || l.EndDelay > 0
			l.OpenFaults, l.Sweep, l.Flips, l.EndDelay = nil, false, nil, 0
			return had
		}) || smaller
		for c := range s.best.Lives[i].Clients {
			for o := range s.best.Lives[i].Clients[c] {
				smaller = s.try(func(h *History) bool { return h.Lives[i].Clients[c][o].simplify() }) || smaller
			}
		}
	}
	return smaller
}

func (o *Op) simplify() bool {
	before := *o
	o.Pieces, o.Layout, o.Pause, o.Group, o.Importance = 1, 0, 0, 0, 0
	o.Count = (o.Count + 1) / 2
	return *o != before
}

func (h *History) clone() *History {
	c := *h
	c.Lives = append([]Life(nil), h.Lives...)
	for i := range c.Lives {
		l := &c.Lives[i]
		l.Flips = append([]Flip(nil), l.Flips...)
		l.Faults = append([]TimedFaults(nil), l.Faults...)
		l.Clients = append([][]Op(nil), l.Clients...)
		for n := range l.Clients {
			l.Clients[n] = append([]Op(nil), l.Clients[n]...)
		}
	}
	return &c
}
