package pool

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// counters of a Pool, since it was made.
type counters struct {
	matches, asked, found atomic.Uint64
}

// peerCounters of one peer.
type peerCounters struct {
	matches, matchesLate          atomic.Uint64
	hits, misses, late, readBytes atomic.Uint64
	wrong, stale, malformed       atomic.Uint64
	hedged, hedgesWon             atomic.Uint64
	skipped, failures, probes     atomic.Uint64
	refused, lost                 atomic.Uint64
	served                        atomic.Uint64
}

// Stat takes a snapshot.
func (p *Pool) Stat() Stat {
	c := &p.counts
	st := Stat{Pool: p.o.PoolID, Node: p.o.Node.String(), Name: p.o.Name, Transport: p.o.Transport.Name(), Copies: p.o.Copies, Placement: "run",
		Hints: p.hints.len(), Lent: p.lent.len(), Matches: c.matches.Load(), Asked: c.asked.Load(), Found: c.found.Load(),
		Puts: p.puts.stat(), Erase: p.erase.stat(), Moves: p.move.moveStat()}
	if p.o.LocalPlacement {
		st.Placement = "local"
	}
	if a := p.o.Transport.Address(); a != nil {
		st.Address = a.String()
	}
	for _, m := range p.o.Members.Members() {
		if m.Self {
			st.State, st.Zone = m.State.String(), m.Zone
		}
	}
	p.peers.mu.Lock()
	all := slices.Clone(p.peers.gone)
	p.peers.mu.Unlock()
	for _, r := range append(all, p.peers.all()...) {
		one := r.stat()
		if one.Suspect {
			st.Suspicious++
		}
		st.Peers = append(st.Peers, one)
	}
	slices.SortFunc(st.Peers, func(a, b PeerStat) int { return strings.Compare(a.Name+a.Node, b.Name+b.Node) })
	return st
}

func (r *remote) stat() PeerStat {
	c := &r.counts
	st := PeerStat{Node: r.id.String(), Member: r.ctx.Err() == nil, Usable: r.usable(), InFlightBytes: r.inFlight.Load(),
		Matches: c.matches.Load(), MatchesLate: c.matchesLate.Load(), Hits: c.hits.Load(), Misses: c.misses.Load(), Late: c.late.Load(),
		Refused: c.refused.Load(), Lost: c.lost.Load(), Wrong: c.wrong.Load(), Hedged: c.hedged.Load(), HedgesWon: c.hedgesWon.Load(), Skipped: c.skipped.Load(),
		Failures: c.failures.Load(), Probes: c.probes.Load(), StaleHints: c.stale.Load(), Malformed: c.malformed.Load(),
		ReadBytes: c.readBytes.Load(), ServedBlocks: c.served.Load()}
	if took := r.times.fetches.Snapshot(); took.Count > 0 {
		st.P50NS, st.P95NS, st.P99NS = took.PercentileNS(50), took.PercentileNS(95), took.PercentileNS(99)
	}
	r.puts.stat(&st)
	st.Way = transport.Way{Name: r.pool.o.Transport.Name()}
	if ways, ok := r.pool.o.Transport.(transport.Ways); ok {
		st.Way = ways.Way(r.id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.member
	st.Name, st.Address, st.Zone, st.State, st.Suspect = m.Name, m.Address, m.Zone, m.State.String(), m.Suspect && st.Member
	st.CapacityBytes, st.FreeBytes = m.CapacityBytes, m.FreeBytes
	st.Link, st.Breaker, st.Opened = r.state.String(), r.breaker.String(), r.breaker.trips
	if r.cause != nil {
		st.Cause = r.cause.Error()
	}
	return st
}

// Registrar is the transport, if it is quicker with memory that it knows; else nil.
func (p *Pool) Registrar() transport.Registrar {
	r, _ := p.o.Transport.(transport.Registrar)
	return r
}

// Self is this node, as the others hear of it.
func (p *Pool) Self() member.Member {
	for _, m := range p.o.Members.Members() {
		if m.Self {
			return m
		}
	}
	return member.Member{ID: p.o.Node, Name: p.o.Name, Self: true}
}
