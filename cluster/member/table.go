package member

import (
	"net/netip"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// record is what this node knows of another one.
type record struct {
	m      Member
	at     netip.AddrPort // of its gossip
	keys   []fingerprint
	health Health
	since  time.Time // of health
	over   bool      // this life is over, though the library does not know yet
	doomed time.Time // the library says that it is none any more, since then; zero: not so
	legs   map[Leg]*legRecord
	probe  schedule // of its legs
	search schedule // of joining through it, once it is gone
}

func (r *record) life() life { return life{r.m.ID, r.m.Start} }

func (r *record) turn(h Health) {
	r.health, r.since = h, time.Now()
	r.m.Suspect = h == Suspect
}

const kindOfRefusal = journal.Foreign

// arrived takes in that a member is there, or describes itself anew.
func (g *Gossip) arrived(name string, meta []byte, at netip.AddrPort) {
	m, err := decodeMetadata(meta)
	if name == g.o.Name || err != nil { // not this node; NotifyAlive has seen all others
		return
	}
	m.member.Name = name
	g.mu.Lock()
	old := g.live[name]
	_, over := g.overs[life{m.member.ID, m.member.Start}]
	next := &record{m: m.member, at: at, keys: m.keys, over: over}
	switch {
	case old == nil || old.m.ID != m.member.ID:
		g.counters.Joined++
		next.legs, next.health, next.since = map[Leg]*legRecord{}, Alive, time.Now()
		if old != nil { // another node under the name: the old one was not heard to end
			g.buryLocked(old, Failed)
		}
	case old.m.Start != m.member.Start || old.at != at || old.m.Address != m.member.Address:
		next.legs, next.health, next.since = map[Leg]*legRecord{}, Alive, time.Now()
	default:
		next.legs, next.health, next.since, next.probe = old.legs, old.health, old.since, old.probe
		next.m.Suspect = old.m.Suspect
		if !old.doomed.IsZero() { // whoever said so was wrong
			next.turn(Alive)
		}
	}
	g.live[name] = next
	delete(g.gone, m.member.ID)
	g.others.Store(int64(len(g.live)))
	if old == nil || old.m != next.m {
		g.changedLocked()
	}
	after, before := *next, record{}
	if old != nil {
		before = *old
	}
	g.mu.Unlock()
	g.tellArrival(before, after)
}

// tellArrival writes what has changed into the journal.
func (g *Gossip) tellArrival(before, after record) {
	name := after.m.Name
	switch {
	case after.over:
	case before.m.ID != after.m.ID:
		g.o.Journal.Add(journal.Joined, name, "joined at %s, data at %s", after.at, after.m.Address)
	case before.m.Start != after.m.Start:
		g.o.Journal.Add(journal.Joined, name, "has started again, at %s, data at %s", after.at, after.m.Address)
	case before.m.State != after.m.State:
		g.o.Journal.Add(journal.State, name, "is %s", after.m.State)
	}
}

// departed takes in that a member is none any more. If it has not said so itself, it may be
// the word of somebody who was cut off, and the member will deny it: until then it is
// suspect, as it was before to whoever probed it.
func (g *Gossip) departed(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.live[name]
	if r == nil {
		return
	}
	r.doomed = time.Now()
	if _, over := g.overs[r.life()]; over || r.m.State == Leaving {
		r.doomed = r.doomed.Add(-g.t.grace())
	} else if r.health != Suspect {
		r.turn(Suspect)
		r.probe = schedule{}
		g.changedLocked()
	}
	poke(g.hurry)
}

// grace is how long a member may take to deny that it has failed.
func (t *timing) grace() time.Duration { return 2*t.probeInterval + 5*t.gossipInterval }

// removeDoomed takes those out who did not deny it.
func (g *Gossip) removeDoomed() {
	g.mu.Lock()
	var told []record
	for name, r := range g.live {
		if r.doomed.IsZero() || time.Since(r.doomed) < g.t.grace() {
			continue
		}
		delete(g.live, name)
		health := Failed
		mark, over := g.overs[r.life()]
		if r.m.State == Leaving || over {
			health = Left
		}
		if !over || mark.reason != overForgot {
			g.buryLocked(r, health)
		}
		if !over { // else it was told when it was heard
			told = append(told, *r)
		}
	}
	g.others.Store(int64(len(g.live)))
	if len(told) > 0 {
		g.changedLocked()
	}
	g.mu.Unlock()
	for _, r := range told {
		if r.health == Left {
			g.o.Journal.Add(journal.Left, r.m.Name, "has left")
		} else {
			g.o.Journal.Add(journal.Failed, r.m.Name, "does not answer anybody and is no member any more; it is looked for at %s", r.at)
		}
	}
}

// buryLocked remembers a member that is none any more.
func (g *Gossip) buryLocked(r *record, h Health) {
	if h == Failed {
		g.counters.Failed++
	} else {
		g.counters.Left++
	}
	r.turn(h)
	r.legs, r.search, r.doomed = nil, schedule{}, time.Time{}
	g.gone[r.m.ID] = r
	for len(g.gone) > lostMax {
		var oldest *record
		for _, o := range g.gone {
			if oldest == nil || o.since.Before(oldest.since) {
				oldest = o
			}
		}
		delete(g.gone, oldest.m.ID)
	}
}

// expireLocked forgets those that are gone for long, and lives that are over for long.
func (g *Gossip) expireLocked() {
	for id, r := range g.gone {
		if time.Since(r.since) > g.t.lostKeep || r.health == Left && time.Since(r.since) > g.t.overKeep {
			delete(g.gone, id)
		}
	}
	for l, o := range g.overs {
		if time.Since(o.until) > 0 {
			delete(g.overs, l)
		}
	}
}

// suspect takes in that a member did not answer this node in any way.
func (g *Gossip) suspect(name string) {
	g.mu.Lock()
	r := g.live[name]
	tell := r != nil && r.health == Alive
	if tell {
		g.counters.Suspected++
		r.turn(Suspect)
		r.probe = schedule{} // test its legs now
		g.changedLocked()
	}
	g.mu.Unlock()
	if tell {
		g.o.Journal.Add(journal.Suspect, name, "does not answer at %s", r.at) // at never changes
	}
}

// answered takes in that a member answered on a leg.
func (g *Gossip) answered(name string, leg Leg, rtt time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.live[name]
	if r == nil {
		return
	}
	if r.legs[leg] == nil {
		r.legs[leg] = &legRecord{}
	}
	*r.legs[leg] = legRecord{at: time.Now(), rtt: rtt}
	if r.health == Suspect && leg != LegData {
		r.turn(Alive)
		g.changedLocked()
	}
}

// roster are the live members and their keys.
func (g *Gossip) roster() []keyHolder {
	own := g.keys.fingerprints()
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []keyHolder{{g.o.Name, own}}
	for name, r := range g.live {
		if !r.over {
			list = append(list, keyHolder{name, r.keys})
		}
	}
	sortHolders(list)
	return list
}
