package node

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// Stat is a snapshot of a node. Counters count from its start.
type Stat struct {
	Instance    string        `json:"instance"` // 32 hex digits, new at each start
	Server      string        `json:"server"`
	UptimeMS    int64         `json:"uptime_ms"`
	Connections int           `json:"connections"` // now
	Accepted    uint64        `json:"accepted"`    // clients that came
	Refused     uint64        `json:"refused"`     // for want of room
	Malformed   uint64        `json:"malformed"`   // connections ended for breaking the protocol
	Requests    uint64        `json:"requests"`
	Limited     uint64        `json:"limited"` // requests refused at a bound
	Faults      uint64        `json:"faults"`  // places outside their region
	Matched     uint64        `json:"matched"` // keys asked for by Match
	MatchedHere uint64        `json:"matched_here"`
	Spaces      []SpaceStat   `json:"namespaces"` // opened since the start
	Drives      []DriveStat   `json:"drives"`     // one for each store
	Stores      []engine.Stat `json:"stores"`
	Clients     []ClientStat  `json:"clients"`
}

// SpaceStat is a namespace over all stores. It counts keys.
type SpaceStat struct {
	Name         string `json:"name"`
	ID           string `json:"id"` // 64 hex digits
	BlockBytes   int    `json:"block_bytes"`
	Share        int    `json:"share"`
	QuotaBytes   int64  `json:"quota_bytes"`
	Blocks       int    `json:"blocks"`
	Slots        int    `json:"slots"`
	Hits         uint64 `json:"hits"`
	PrefixHits   uint64 `json:"prefix_hits"` // hits with everything before them in the request hit
	Misses       uint64 `json:"misses"`
	Late         uint64 `json:"late"`
	Busy         uint64 `json:"busy"`
	Stored       uint64 `json:"stored"`
	Present      uint64 `json:"present"`
	Dropped      uint64 `json:"dropped"`
	ReadBytes    uint64 `json:"read_bytes"`
	WrittenBytes uint64 `json:"written_bytes"`
}

// DriveStat is a store's queue.
type DriveStat struct {
	LoadBytes           int64   `json:"load_bytes"`  // running
	StoreBytes          int64   `json:"store_bytes"` // running
	LoadsWaiting        int     `json:"loads_waiting"`
	StoresWaiting       int     `json:"stores_waiting"`
	AdmittedBytes       int64   `json:"admitted_bytes"`         // of puts, running and waiting
	WriteBytesPerSecond float64 `json:"write_bytes_per_second"` // as measured; 0: not yet
}

// ClientStat is one connection.
type ClientStat struct {
	Number      uint64 `json:"number"`
	Name        string `json:"name"`
	Peer        Peer   `json:"peer"`
	SinceMS     int64  `json:"since_ms"` // its age
	Namespaces  int    `json:"namespaces"`
	Regions     int    `json:"regions"`
	RegionBytes int64  `json:"region_bytes"`
	Leases      int    `json:"leases"`
	Requests    int    `json:"requests"` // in flight
}

// Stat takes a snapshot.
func (n *Node) Stat() Stat {
	st := Stat{Instance: hex.EncodeToString(n.instance[:]), Server: n.options.Server, UptimeMS: time.Since(n.started).Milliseconds(),
		Accepted: n.counters.connections.Load(), Refused: n.counters.refused.Load(), Malformed: n.counters.malformed.Load(),
		Requests: n.counters.requests.Load(), Limited: n.counters.limited.Load(), Faults: n.counters.faults.Load(),
		Matched: n.counters.matched.Load(), MatchedHere: n.counters.matchedPresent.Load()}
	n.opening.Lock()
	for _, s := range n.spaces {
		st.Spaces = append(st.Spaces, s.stat())
	}
	n.opening.Unlock()
	slices.SortFunc(st.Spaces, func(a, b SpaceStat) int { return slices.Compare([]byte(a.Name+a.ID), []byte(b.Name+b.ID)) })
	for i, d := range n.drives {
		st.Drives = append(st.Drives, d.stat())
		st.Stores = append(st.Stores, n.options.Stores[i].Stat())
	}
	n.mu.Lock()
	st.Connections = len(n.conns)
	for c := range n.conns {
		st.Clients = append(st.Clients, c.stat())
	}
	n.mu.Unlock()
	slices.SortFunc(st.Clients, func(a, b ClientStat) int { return int(a.Number) - int(b.Number) })
	return st
}

func (s *space) stat() SpaceStat {
	st := SpaceStat{Name: s.name, ID: hex.EncodeToString(s.id[:]), BlockBytes: s.blockBytes, Share: max(s.rule.Share, 1), QuotaBytes: s.rule.QuotaBytes}
	for i := range s.parts {
		p := s.parts[i].ns.Stat()
		st.Blocks += p.Blocks
		st.Slots += p.Slots
	}
	k := &s.counters
	st.Hits, st.PrefixHits, st.Misses, st.Late, st.Busy = k.hits.Load(), k.prefixHits.Load(), k.misses.Load(), k.late.Load(), k.busy.Load()
	st.Stored, st.Present, st.Dropped = k.stored.Load(), k.present.Load(), k.dropped.Load()
	st.ReadBytes, st.WrittenBytes = k.readBytes.Load(), k.writtenBytes.Load()
	return st
}

func (d *drive) stat() DriveStat {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := DriveStat{LoadBytes: d.running[loads], StoreBytes: d.running[stores], LoadsWaiting: len(d.waiting[loads]),
		StoresWaiting: len(d.waiting[stores]), AdmittedBytes: d.admitted}
	if t := d.rate.timeFor(1 << 30); t > 0 {
		st.WriteBytesPerSecond = float64(1<<30) / t.Seconds()
	}
	return st
}

func (c *conn) stat() ClientStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ClientStat{Number: c.number, Name: c.client, Peer: c.peer, SinceMS: time.Since(c.since).Milliseconds(), Namespaces: len(c.spaces),
		Regions: c.regionCount, RegionBytes: c.regionBytes, Leases: len(c.leases.byNumber), Requests: len(c.requests)}
}
