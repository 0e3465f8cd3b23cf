package main

import (
	"fmt"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/fio/units"
)

// topPeersShown bounds the table of peers.
const topPeersShown = 32

// topPool is what goes to and comes from each peer; nothing outside of a pool.
func topPool(before, now *admin.State) [][]string {
	p := now.Pool
	if p == nil {
		return nil
	}
	head := []string{"PEER of pool " + p.Pool, "STATE", "LINK", "WAY", "P50", "P99", "IN FLIGHT", "GOT", "READ", "MISSED", "LATE", "WRONG", "STORED", "WRITTEN", "SERVED", "TAKEN", "FAILURES"}
	this := make([]string, len(head)) // as long as the others, or the columns do not line up
	this[0], this[1] = p.Name+" (this)", p.State
	rows := [][]string{head, this}
	earlier := map[string]*pool.PeerStat{}
	if before != nil && before.Pool != nil {
		for i := range before.Pool.Peers {
			earlier[before.Pool.Peers[i].Node] = &before.Pool.Peers[i]
		}
	}
	shown := 0
	for i := range p.Peers {
		s := &p.Peers[i]
		if !s.Member {
			continue
		}
		if shown++; shown > topPeersShown {
			continue
		}
		was := earlier[s.Node]
		if was == nil {
			was = &pool.PeerStat{}
		}
		n := func(was, is uint64) string { return count(before, now, was, is, plain) }
		rows = append(rows, []string{s.Name, stateOf(s), linkOf(s), s.Way.Name, timeOrNone(s.P50NS), timeOrNone(s.P99NS), units.Bytes(s.InFlightBytes),
			n(was.Hits, s.Hits), count(before, now, was.ReadBytes, s.ReadBytes, sized), n(was.Misses, s.Misses), n(was.Late, s.Late), fmt.Sprint(s.Wrong),
			n(was.Stored, s.Stored), count(before, now, was.WrittenBytes, s.WrittenBytes, sized), n(was.ServedBlocks, s.ServedBlocks), n(was.TakenBlocks, s.TakenBlocks), n(was.Failures, s.Failures)})
	}
	if shown > topPeersShown {
		rows = append(rows, []string{fmt.Sprintf("and %d more", shown-topPeersShown)})
	}
	return rows
}

// stateOf is a peer's state in a word or two.
func stateOf(p *pool.PeerStat) string {
	switch {
	case !p.Member:
		return "gone"
	case p.Suspect:
		return p.State + ", suspect"
	}
	return p.State
}

// linkOf is a peer's link, and its breaker unless that is closed.
func linkOf(p *pool.PeerStat) string {
	if p.Breaker != "closed" {
		return p.Link + ", breaker " + p.Breaker
	}
	return p.Link
}
