package admit

import (
	"sync"
	"time"
)

// Limit is a rate of writing that holds over time: at most BytesPerSecond times
// (Burst + t) within any time t, and a block more for each namespace. Zero: none.
type Limit struct {
	BytesPerSecond float64
	Burst          time.Duration // how much may be written at once, as the time in which it accrues
}

// Wears is the limit of so many drive writes per day (DWPD) on a drive of this
// capacity.
func Wears(drivesPerDay float64, capacityBytes int64, burst time.Duration) Limit {
	return Limit{drivesPerDay * float64(capacityBytes) / (24 * time.Hour).Seconds(), burst}
}

// Budget is what one drive may be written: every limit of it must allow a write.
// Half of a limit's burst belongs to the namespaces, each as much as its weight says;
// what one of them does not use overflows into the other half, from which everybody
// takes. So nobody's writes keep another from its share, and no share is wasted.
type Budget struct {
	mu     sync.Mutex
	shares []*Share
	weight float64 // of all shares
	limits []account
}

// Share is one namespace's claim on a budget.
type Share struct {
	weight float64
	own    []float64 // bytes at hand, for each limit; below 0 after a block larger than what was left
}

// account is one limit's state.
type account struct {
	Limit
	common float64 // bytes at hand for everybody
	at     time.Time
}

// refillStep is how often accounts are credited at most: it costs a step for each
// namespace.
const refillStep = 5 * time.Millisecond

// SetLimits replaces the limits; those of 0 are left out. What was saved up is kept
// if their number is the same, as far as the new burst allows; otherwise the common half
// begins full and the namespaces' own empty.
func (b *Budget) SetLimits(now time.Time, limits ...Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next []account
	for _, l := range limits {
		if l.BytesPerSecond > 0 {
			next = append(next, account{Limit: l, common: l.half(), at: now})
		}
	}
	if len(next) == len(b.limits) {
		for i := range next {
			b.refillLocked(i, now)
			next[i].common = min(next[i].common, b.limits[i].common)
		}
	} else {
		for _, s := range b.shares {
			s.own = make([]float64, len(next))
		}
	}
	b.limits = next
}

func (l Limit) half() float64 { return l.BytesPerSecond * l.Burst.Seconds() / 2 }

// Limited reports whether there is any limit.
func (b *Budget) Limited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.limits) > 0
}

// BytesPerSecond is the lowest limit; 0 without one.
func (b *Budget) BytesPerSecond() (lowest float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.limits {
		if rate := b.limits[i].BytesPerSecond; lowest == 0 || rate < lowest {
			lowest = rate
		}
	}
	return lowest
}

// NewShare adds a namespace. It begins with nothing of its own.
func (b *Budget) NewShare(weight float64) *Share {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &Share{weight: weight, own: make([]float64, len(b.limits))}
	b.shares = append(b.shares, s)
	b.weight += weight
	return s
}

// SetWeight changes a namespace's.
func (b *Budget) SetWeight(s *Share, weight float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.weight += weight - s.weight
	s.weight = weight
}

// Take takes bytes of a write from the budget, or reports that it must not be made
// now.
func (b *Budget) Take(now time.Time, s *Share, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.limits {
		b.refillLocked(i, now)
		if s.own[i] <= 0 && b.limits[i].common <= 0 {
			return false
		}
	}
	for i := range b.limits {
		if a := &b.limits[i]; s.own[i] > 0 {
			s.own[i] -= float64(bytes)
		} else {
			a.common -= float64(bytes)
		}
	}
	return true
}

// Return gives back what was taken for a write that was not made.
func (b *Budget) Return(s *Share, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.limits {
		b.creditLocked(i, s, float64(bytes))
	}
}

// Left is what everybody together may write now under the tightest limit, at least 0;
// false without one.
func (b *Budget) Left(now time.Time) (bytes int64, limited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.limits {
		b.refillLocked(i, now)
		left := max(b.limits[i].common, 0)
		for _, s := range b.shares {
			left += max(s.own[i], 0)
		}
		if !limited || int64(left) < bytes {
			bytes, limited = int64(left), true
		}
	}
	return bytes, limited
}

// refillLocked credits a limit's time since the last credit.
func (b *Budget) refillLocked(i int, now time.Time) {
	a := &b.limits[i]
	elapsed := now.Sub(a.at)
	if elapsed < refillStep {
		return
	}
	a.at = now
	fresh := a.BytesPerSecond * elapsed.Seconds()
	if len(b.shares) == 0 {
		a.common = min(a.common+fresh, a.half())
		return
	}
	for _, s := range b.shares {
		b.creditLocked(i, s, fresh*s.weight/b.weight)
	}
}

// creditLocked gives bytes to a share, and what it cannot hold to everybody.
func (b *Budget) creditLocked(i int, s *Share, bytes float64) {
	a := &b.limits[i]
	most := a.half() * s.weight / b.weight
	s.own[i] += bytes
	if over := s.own[i] - most; over > 0 {
		s.own[i] = most
		a.common = min(a.common+over, a.half())
	}
}
