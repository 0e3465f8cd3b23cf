package node

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/memory"
	"github.com/spillway-kv/spillway/tiering/worth"
)

// Stat is a snapshot of a node. Counters count from its start.
type Stat struct {
	Instance       string         `json:"instance"`           // 32 hex digits, new at each start
	Server         string         `json:"server"`             // name and version
	UptimeMS       int64          `json:"uptime_ms"`          // since the start
	CPUNS          int64          `json:"cpu_ns"`             // processor time that the daemon has used, user and system
	Connections    int            `json:"connections"`        // now
	Accepted       uint64         `json:"accepted"`           // clients that came
	Refused        uint64         `json:"refused"`            // clients refused for want of room
	Malformed      uint64         `json:"malformed"`          // connections ended for breaking the protocol
	Requests       uint64         `json:"requests"`           // of all kinds
	Limited        uint64         `json:"limited"`            // requests refused at a bound
	Faults         uint64         `json:"faults"`             // places outside their region
	Matched        uint64         `json:"matched"`            // keys asked for by Match
	MatchedHere    uint64         `json:"matched_here"`       // of those, present
	Declined       uint64         `json:"declined"`           // of those, answered as absent because computing is quicker
	StoringNothing bool           `json:"storing_nothing"`    // in the last minute puts came and all were dropped
	Recent         RecentStat     `json:"recent"`             // the last minute
	Memory         *memory.Stat   `json:"memory,omitempty"`   // the memory tier, if there is one
	Prefetch       *PrefetchStat  `json:"prefetch,omitempty"` // into it
	Pool           *pool.Stat     `json:"pool,omitempty"`     // the node's part in a pool, if it is in one
	Registered     RegisteredStat `json:"registered"`         // memory that the pool's transport knows
	Spaces         []SpaceStat    `json:"namespaces"`         // opened since the start
	Drives         []DriveStat    `json:"drives"`             // the queue of each store
	Stores         []engine.Stat  `json:"stores"`             // in the order of the configuration
	Clients        []ClientStat   `json:"clients"`            // connected now
}

// RegisteredStat is the memory that the pool's transport knows, as RDMA wants it. Blocks of
// other memory are copied once more on their way. All 0 where the transport does not ask.
type RegisteredStat struct {
	Bytes   int64  `json:"bytes"`           // that it knows
	Missing int    `json:"missing"`         // regions of clients, and parts of the node's own memory, that it does not know
	Cause   string `json:"cause,omitempty"` // of the latest that could not be made known
}

// RecentStat is the block reads of the last minute, from request to answer; all 0
// without any.
type RecentStat struct {
	Reads uint64 `json:"reads"`  // blocks that were hit
	P50NS int64  `json:"p50_ns"` // half of them were no slower
	P99NS int64  `json:"p99_ns"` // 99 of 100 were no slower
	MaxNS int64  `json:"max_ns"` // the slowest
}

// SpaceStat is a namespace over all stores. It counts keys.
type SpaceStat struct {
	Name           string `json:"name"`                   // as its descriptor says
	ID             string `json:"id"`                     // 64 hex digits
	Number         int    `json:"number"`                 // in the order in which they were opened, from 1
	BlockBytes     int    `json:"block_bytes"`            // size of every block
	TokensPerBlock int    `json:"tokens_per_block"`       // as its descriptor says; 0: unknown
	Share          int    `json:"share"`                  // weight when a drive is busy
	QuotaBytes     int64  `json:"quota_bytes"`            // over all stores; 0: none
	Blocks         int    `json:"blocks"`                 // present
	Slots          int    `json:"slots"`                  // blocks that fit
	ComputeFrom    string `json:"compute_from,omitempty"` // where the time to compute a prefix is from: namespace, model or gate; absent: not known
	ComputeTokenNS int64  `json:"compute_token_ns"`       // of a prefix of 4,096 tokens, for each; 0: not known
	Declined       uint64 `json:"declined"`               // keys of Matches that are here and were answered as absent, as computing is quicker
	Hits           uint64 `json:"hits"`                   // blocks of Gets that were read
	PrefixHits     uint64 `json:"prefix_hits"`            // hits with everything before them in the request hit
	MemoryHits     uint64 `json:"memory_hits"`            // hits that came from memory
	RemoteHits     uint64 `json:"remote_hits"`            // hits that came from other nodes of the pool
	Misses         uint64 `json:"misses"`                 // blocks of Gets that were not here
	Late           uint64 `json:"late"`                   // blocks of Gets past their deadline
	Busy           uint64 `json:"busy"`                   // blocks of Gets refused at a bound
	Stored         uint64 `json:"stored"`                 // blocks of Puts
	RemoteStored   uint64 `json:"remote_stored"`          // of those, stored by other nodes of the pool and not here
	Present        uint64 `json:"present"`                // blocks of Puts that were here
	Dropped        uint64 `json:"dropped"`                // blocks of Puts refused or failed
	NotFull        uint64 `json:"dropped_partial"`        // of those, partial blocks
	FirstSight     uint64 `json:"dropped_first_sight"`    // of those, put for the first time
	OverBudget     uint64 `json:"dropped_budget"`         // of those, beyond the write budget
	QueueFull      uint64 `json:"dropped_queue"`          // of those, beyond the bounds of the queue
	LatePuts       uint64 `json:"late_puts"`              // blocks of Puts past their deadline
	ReadBytes      uint64 `json:"read_bytes"`             // of hits
	WrittenBytes   uint64 `json:"written_bytes"`          // of blocks stored here
}

// DriveStat is a store's queue.
type DriveStat struct {
	LoadBytes           int64        `json:"load_bytes"`             // of reads, running
	StoreBytes          int64        `json:"store_bytes"`            // of writes, running
	PrefetchBytes       int64        `json:"prefetch_bytes"`         // of reads ahead, running
	LoadsWaiting        int          `json:"loads_waiting"`          // reads
	StoresWaiting       int          `json:"stores_waiting"`         // writes
	AdmittedBytes       int64        `json:"admitted_bytes"`         // of puts, running and waiting
	AdmittedMaxBytes    int64        `json:"admitted_max_bytes"`     // the bound of those
	ReadBytesPerSecond  float64      `json:"read_bytes_per_second"`  // as measured; 0: not yet
	WriteBytesPerSecond float64      `json:"write_bytes_per_second"` // as measured; 0: not yet
	ReadRates           []worth.Rate `json:"read_rates,omitempty"`   // as measured lately, by size of block and depth of queue
	DayBytes            int64        `json:"day_bytes"`              // of blocks written within the last day
	DayMS               int64        `json:"day_ms"`                 // that day; shorter when the daemon has not run for so long
	DayBudgetBytes      int64        `json:"day_budget_bytes"`       // what the write budget allows in a day; 0: no bound
	BudgetLeftBytes     int64        `json:"budget_left_bytes"`      // what it allows at once, now
	DrivesPerDay        float64      `json:"drives_per_day"`         // store capacities written per day at this pace (DWPD); 0: not yet
	DaysLeft            float64      `json:"days_left"`              // until the drive's endurance is used up at this pace; 0: not known
}

// ClientStat is one connection.
type ClientStat struct {
	Number      uint64 `json:"number"`         // of the connection
	Name        string `json:"name"`           // what the client calls itself
	Peer        Peer   `json:"peer"`           // who the kernel says it is
	SinceMS     int64  `json:"since_ms"`       // its age
	Namespaces  int    `json:"namespaces"`     // open
	Regions     int    `json:"regions"`        // registered
	Copied      int    `json:"regions_copied"` // of those, not known to the pool's transport, which would be quicker: blocks from peers are copied
	RegionBytes int64  `json:"region_bytes"`   // of those
	Leases      int    `json:"leases"`         // held
	Requests    int    `json:"requests"`       // in flight
}

// Stat takes a snapshot.
func (n *Node) Stat() Stat {
	st := Stat{Instance: hex.EncodeToString(n.instance[:]), Server: n.options.Load().Server, UptimeMS: time.Since(n.started).Milliseconds(), CPUNS: processNS(),
		Accepted: n.counters.connections.Load(), Refused: n.counters.refused.Load(), Malformed: n.counters.malformed.Load(),
		Requests: n.counters.requests.Load(), Limited: n.counters.limited.Load(), Faults: n.counters.faults.Load(),
		Matched: n.counters.matched.Load(), MatchedHere: n.counters.matchedPresent.Load(), Declined: n.counters.declined.Load()}
	recent := n.Recent(time.Now())
	st.StoringNothing = recent.StoringNothing()
	if reads := recent.Reads; reads.Count > 0 {
		st.Recent = RecentStat{reads.Count, reads.PercentileNS(50), reads.PercentileNS(99), reads.MaxNS}
	}
	if n.memory != nil {
		tier, ahead := n.memory.Stat(), n.ahead.stat()
		st.Memory, st.Prefetch = &tier, &ahead
	}
	if n.pool != nil {
		part := n.pool.Stat()
		st.Pool = &part
	}
	st.Registered = RegisteredStat{Bytes: n.registered.bytes.Load(), Missing: int(n.registered.missing.Load()), Cause: n.registered.lastCause()}
	for _, s := range n.openSpaces() {
		st.Spaces = append(st.Spaces, s.stat())
	}
	slices.SortFunc(st.Spaces, func(a, b SpaceStat) int { return slices.Compare([]byte(a.Name+a.ID), []byte(b.Name+b.ID)) })
	for i, d := range n.drives {
		st.Drives = append(st.Drives, d.stat())
		st.Stores = append(st.Stores, n.stores[i].Stat())
	}
	n.mu.Lock()
	st.Connections = len(n.conns)
	for c := range n.conns {
		one := c.stat()
		st.Clients, st.Registered.Missing = append(st.Clients, one), st.Registered.Missing+one.Copied
	}
	n.mu.Unlock()
	slices.SortFunc(st.Clients, func(a, b ClientStat) int { return int(a.Number) - int(b.Number) })
	return st
}

func (s *space) stat() SpaceStat {
	st := SpaceStat{Name: s.name, ID: hex.EncodeToString(s.id[:]), Number: s.number, BlockBytes: s.blockBytes,
		TokensPerBlock: s.tokensPerBlock, Share: int(s.parts[0].drive.weight(s.parts[0].flow))}
	for i := range s.parts {
		p := s.parts[i].ns.Stat()
		st.Blocks += p.Blocks
		st.Slots += p.Slots
		st.QuotaBytes += p.QuotaBytes
	}
	known := s.compute.Load()
	st.ComputeFrom, st.ComputeTokenNS = known.from, known.prefix(4096).Nanoseconds()/4096
	k := &s.counters
	st.Declined = k.declined.Load()
	st.MemoryHits, st.RemoteHits = k.memoryHits.Load(), k.remoteHits.Load()
	st.Hits, st.PrefixHits, st.Misses, st.Late, st.Busy = k.hits.Load(), k.prefixHits.Load(), k.misses.Load(), k.late.Load(), k.busy.Load()
	st.RemoteStored = k.remoteStored.Load()
	st.Stored, st.Present, st.Dropped, st.LatePuts = k.stored.Load(), k.present.Load(), k.dropped.Load(), k.latePuts.Load()
	for why, n := range map[admit.Reason]*uint64{admit.Partial: &st.NotFull, admit.FirstSight: &st.FirstSight, admit.OverBudget: &st.OverBudget, admit.QueueFull: &st.QueueFull} {
		*n = k.refused[why].Load()
	}
	st.ReadBytes, st.WrittenBytes = k.readBytes.Load(), k.writtenBytes.Load()
	return st
}

func (d *drive) stat() DriveStat {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := DriveStat{LoadBytes: d.running[loads], StoreBytes: d.running[stores], PrefetchBytes: d.running[prefetches], LoadsWaiting: d.tickets[loads],
		StoresWaiting: d.tickets[stores], AdmittedBytes: d.admitted, AdmittedMaxBytes: d.queueBytes}
	perSecond := func(c class) float64 {
		if t := d.rates[c].TimeFor(1 << 30); t > 0 {
			return float64(1<<30) / t.Seconds()
		}
		return 0
	}
	st.ReadBytesPerSecond, st.WriteBytesPerSecond = perSecond(loads), perSecond(stores)
	st.ReadRates = d.reads.All(time.Now())
	d.wearStat(&st, time.Now())
	return st
}

func (c *conn) stat() ClientStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := 0
	for _, r := range c.regions {
		if r.copied {
			copied++
		}
	}
	return ClientStat{Number: c.number, Name: c.client, Peer: c.peer, SinceMS: time.Since(c.since).Milliseconds(), Namespaces: len(c.spaces),
		Regions: c.regionCount, RegionBytes: c.regionBytes, Copied: copied, Leases: len(c.leases.byNumber), Requests: c.open}
}
