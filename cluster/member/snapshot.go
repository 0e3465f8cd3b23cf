package member

import (
	"cmp"
	"slices"
	"time"
)

func sortHolders(list []keyHolder) {
	slices.SortFunc(list, func(a, b keyHolder) int { return cmp.Compare(a.name, b.name) })
}

// Members is part of Membership.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []Member{g.self}
	if g.refused == nil {
		for _, r := range g.live {
			if !r.over {
				list = append(list, r.m)
			}
		}
	}
	slices.SortFunc(list, func(a, b Member) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return list
}

// Changed is part of Membership.
func (g *Gossip) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

func (g *Gossip) changedLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Status is this node's view of its pool, of this moment.
func (g *Gossip) Status() Status {
	health := g.list.GetHealthScore()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{
		PoolID: g.o.PoolID, Self: g.self, GossipAddress: g.advertise.String(), Profile: g.o.Profile,
		Encrypted: g.keys.Encrypted(), Established: g.standing > newcomer, HealthScore: health, Counters: g.countersLocked(),
	}
	if g.refused != nil {
		s.Refused = g.refused.Error()
	}
	for _, r := range g.live {
		if !r.over {
			s.Members = append(s.Members, r.status())
		}
	}
	for _, r := range g.gone {
		s.Members = append(s.Members, r.status())
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, d := range g.seeds {
		st := SeedStatus{Seed: d.text, Member: d.member, Error: d.err, Attempts: d.attempts}
		for _, at := range d.addresses {
			st.Addresses = append(st.Addresses, at.String())
		}
		s.Seeds = append(s.Seeds, st)
	}
	for k, r := range g.refusals {
		one := *r
		one.Age = time.Since(g.refusalAt[k])
		s.Refusals = append(s.Refusals, one)
	}
	slices.SortFunc(s.Refusals, func(a, b RefusalStatus) int { return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.From, b.From)) })
	return s
}

func (g *Gossip) countersLocked() Counters {
	c := g.counters
	t := &g.traffic
	c.PacketsIn, c.PacketsOut, c.PacketBytesIn, c.PacketBytesOut = t.packetsIn.Load(), t.packetsOut.Load(), t.bytesIn.Load(), t.bytesOut.Load()
	c.StreamsIn, c.StreamsOut, c.StreamsRefused = t.streamsIn.Load(), t.streamsOut.Load(), t.streamsRefused.Load()
	c.LinesDropped = g.logDropped.Load()
	return c
}

func (r *record) status() MemberStatus {
	s := MemberStatus{Member: r.m, Health: r.health, Since: time.Since(r.since), GossipAddress: r.at.String()}
	for _, leg := range []Leg{LegUDP, LegTCP, LegData} {
		l := LegStatus{Leg: leg}
		if t := r.legs[leg]; t != nil {
			l.Tested, l.Error, l.RTT, l.Age = true, t.err, t.rtt, time.Since(t.at)
		}
		if r.legs != nil {
			s.Legs = append(s.Legs, l)
		}
	}
	for _, k := range r.keys {
		s.Keys = append(s.Keys, k.String())
	}
	return s
}
