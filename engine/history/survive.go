package history

import "time"

// excuses say which promises a history lifts.
type excuses struct {
	damage  bool // the medium or a client spoils bytes: blocks may be missing, damage may be seen
	trouble bool // writes and syncs fail: only durable puts are promised
	slow    bool // transfers take any time: the intervals of relaxed puts do not hold
	full    bool // the disk is smaller than the capacity
	meddled bool // clients change destinations during gets
}

func (h *History) excuses() (e excuses) {
	for _, l := range h.Lives {
		plans := []Faults{}
		if l.OpenFaults != nil {
			plans = append(plans, *l.OpenFaults)
		}
		for _, f := range l.Faults {
			plans = append(plans, f.Faults)
		}
		for _, f := range plans {
			e.damage = e.damage || f.ReadEIO+f.TruncatedRead+f.Lost+f.Misdirected+f.Torn+f.Rot > 0
			e.trouble = e.trouble || f.WriteEIO+f.SyncEIO+f.MetaEIO > 0
			e.slow = e.slow || f.Delay+f.Stuck > 0
		}
		e.damage = e.damage || len(l.Flips) > 0
		for _, ops := range l.Clients {
			for _, op := range ops {
				e.damage = e.damage || op.Kind == Put && op.Meddle > 0
				e.meddled = e.meddled || op.Meddle > 0
			}
		}
	}
	e.full = h.Config.DiskBytes > 0
	return e
}

// endLife drops the acknowledgements that the end of a life may take back.
func (m *model) endLife(clean bool, window time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.keepLocked(func(a *ack) bool {
		old := !m.excuse.slow && !m.excuse.trouble && now.Sub(a.at) > window
		a.durable = a.durable || clean
		return a.durable || old
	})
}

// endOpening is the end of a process that died before its store was open: it
// has made nothing durable.
func (m *model) endOpening(end End) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepLocked(func(a *ack) bool { return a.durable || end == Kill })
}

// opened begins a life: a start makes durable what it finds.
func (m *model) opened() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepLocked(func(a *ack) bool { a.durable = true; return true })
	m.leases, m.readOnly = nil, 0
	m.tick++
	m.lifeBegan = m.tick
}

func (m *model) keepLocked(keep func(*ack) bool) {
	for _, s := range m.blocks {
		kept := s.acks[:0]
		for _, a := range s.acks {
			if keep(&a) {
				kept = append(kept, a)
			}
		}
		s.acks = kept
	}
}

// windowOf is how old a relaxed put is when it survives an end of a life.
func (c *Config) windowOf(end End) time.Duration {
	const logWriteInterval = 20 * time.Millisecond // of package wal
	slack := 100*c.LatencyMax + 5*time.Millisecond
	if end == PowerCut {
		return c.SyncInterval + slack
	}
	return logWriteInterval + slack
}

// addLease registers a lease. Blocks that nobody has put in this life
// are left out: an unclean stop may have cost their bytes, and damage outranks a
// lease.
func (m *model) addLease(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := l.blocks[:0]
	for _, b := range l.blocks {
		for _, a := range m.stateLocked(b).acks {
			if a.begin > m.lifeBegan && a.end < l.begin {
				kept = append(kept, b)
				break
			}
		}
	}
	l.blocks = kept
	m.leases = append(m.leases, l)
}

// beginRelease takes the n-th lease of this life, nil if there is none.
func (m *model) beginRelease(n int) *lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.leases) == 0 {
		return nil
	}
	m.tick++
	l := m.leases[n%len(m.leases)]
	if l.released == 0 {
		l.released = m.tick
	}
	return l
}

// endLeases lifts all leases, for want of capacity.
func (m *model) endLeases() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = nil
}
