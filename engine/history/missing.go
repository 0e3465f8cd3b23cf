package history

import (
	"fmt"
	"time"
)

// miss checks a miss that began at begin and has just ended. evicted is asked
// only if an acknowledged block is missing.
func (m *model) miss(b block, begin uint64, evicted func() int) error {
	m.mu.Lock()
	m.checked.Misses++
	if err := m.missLeasedLocked(b, begin); err != nil {
		m.mu.Unlock()
		return err
	}
	why := m.acknowledgedLocked(b, begin)
	if why != "" {
		m.lost++
		m.stateLocked(b).acks = nil
	}
	lost := m.lost
	m.mu.Unlock()
	if why == "" {
		return nil
	}
	if n := evicted(); lost > n {
		return fmt.Errorf("LOST: %v is a miss: %s; %d acknowledged blocks are missing and %d were evicted", b, why, lost, n)
	}
	return nil
}

// acknowledgedLocked says why b must be in the store unless it was evicted.
func (m *model) acknowledgedLocked(b block, begin uint64) string {
	s := m.stateLocked(b)
	for i := len(s.acks) - 1; i >= 0 && !m.excuse.damage; i-- {
		a := s.acks[i]
		if a.end >= begin || !a.durable && m.excuse.trouble || m.erasedSince(b, a.begin) {
			continue
		}
		return fmt.Sprintf("a put of tick %d was acknowledged (durable: %t)", a.begin, a.durable)
	}
	return ""
}

// erasedSince reports whether a delete or drop, acknowledged or not, ended or
// may still end after tick.
func (m *model) erasedSince(b block, tick uint64) bool {
	for _, list := range [][]erasure{m.drops[b.space], m.stateLocked(b).erased} {
		for _, e := range list {
			if e.end > tick {
				return true
			}
		}
	}
	return false
}

func (m *model) missLeasedLocked(b block, begin uint64) error {
	if m.excuse.damage || m.excuse.trouble {
		return nil
	}
	for _, l := range m.leases {
		if begin <= l.from || !time.Now().Before(l.until) || l.released != 0 || m.erasedSince(b, l.begin) {
			continue
		}
		for _, leased := range l.blocks {
			if leased == b {
				return fmt.Errorf("LEASE: %v is a miss, but under lease %d until %v", b, l.id, l.until)
			}
		}
	}
	return nil
}
