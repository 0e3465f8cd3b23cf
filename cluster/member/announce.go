package member

import (
	"bytes"
	"time"
)

// Announce is part of Membership. A state is told at once, room when it has changed by more
// than a 64th of the capacity, and not more often than the profile says.
func (g *Gossip) Announce(state State, capacityBytes, freeBytes int64) {
	g.mu.Lock()
	old := g.self
	g.self.State, g.self.CapacityBytes, g.self.FreeBytes = state, max(capacityBytes, 0), max(freeBytes, 0)
	if g.self != old {
		g.changedLocked()
	}
	g.mu.Unlock()
	poke(g.wake)
}

// selfMetadata is what this node says of itself.
func (g *Gossip) selfMetadata() metadata {
	keys := g.keys.fingerprints()
	g.mu.Lock()
	defer g.mu.Unlock()
	return metadata{poolID: g.o.PoolID, member: g.self, keys: keys}
}

// news says whether m must be announced, and whether at once.
func (g *Gossip) news(m *metadata) (any, urgent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := &g.announced
	urgent = m.member.State != was.member.State || len(m.keys) != len(was.keys)
	for i := 0; !urgent && i < len(m.keys); i++ {
		urgent = m.keys[i] != was.keys[i]
	}
	step := m.member.CapacityBytes / 64
	return urgent || m.member.CapacityBytes != was.member.CapacityBytes || abs(m.member.FreeBytes-was.member.FreeBytes) > step ||
		(m.member.FreeBytes == 0) != (was.member.FreeBytes == 0), urgent
}

func abs(n int64) int64 { return max(n, -n) }

// announceLoop announces what is new.
func (g *Gossip) announceLoop() {
	var later <-chan time.Time
	for {
		select {
		case <-g.wake:
		case <-later:
		case <-g.ctx.Done():
			return
		}
		later = nil
		m := g.selfMetadata()
		any, urgent := g.news(&m)
		if !any {
			continue
		}
		g.mu.Lock()
		wait := g.t.roomInterval - time.Since(g.announcedAt)
		g.mu.Unlock()
		if !urgent && wait > 0 {
			later = time.After(wait)
			continue
		}
		g.announceNow()
	}
}

// announceNow has the library tell the others. That they have heard is not waited for.
// The library loses what it is told while it refutes a suspicion: then it is told again.
func (g *Gossip) announceNow() {
	g.announcing.Lock()
	defer g.announcing.Unlock()
	for range announceTries {
		if g.left { // the library panics when it announces a node that has left
			return
		}
		_ = g.list.UpdateNode(time.Millisecond) // it is on its way
		if bytes.Equal(g.list.LocalNode().Meta, g.told) {
			return
		}
	}
	poke(g.wake)
}

const announceTries = 8
