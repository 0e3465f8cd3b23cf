package pool

import "github.com/spillway-kv/spillway/cluster/transport"

// Stat is a snapshot of a node's part in a pool. Counters count from its start. Each part
// of the pool fills in what it knows; what it adds goes into fields of its own here.
type Stat struct {
	Pool       string     `json:"pool"`       // the pool's ID
	Node       string     `json:"node"`       // this node's ID, 32 hex digits
	Name       string     `json:"name"`       // this node's
	Address    string     `json:"address"`    // where peers reach its data connections
	Zone       string     `json:"zone"`       // where it stands; empty: not said
	State      string     `json:"state"`      // joining, active, draining or leaving
	Transport  string     `json:"transport"`  // that carries blocks, where it can: tcp or rdma
	Copies     int        `json:"copies"`     // of each new block, on different nodes
	Placement  string     `json:"placement"`  // run: the pool chooses the home of new blocks; local: they stay here
	Suspicious int        `json:"suspicious"` // members that do not answer the membership's probes at the moment
	Hints      int        `json:"hints"`      // blocks elsewhere whose places are remembered
	Lent       int        `json:"lent"`       // leases that others have here
	Matches    uint64     `json:"matches"`    // questions to all others what they have
	Asked      uint64     `json:"asked"`      // blocks asked for in them
	Found      uint64     `json:"found"`      // of those, found
	Puts       PutStat    `json:"puts"`       // blocks stored through the pool
	Moves      MoveStat   `json:"moves"`      // what the pool moves of its own accord
	Erase      EraseStat  `json:"erase"`      // what was erased, and who knows of it
	Peers      []PeerStat `json:"peers"`      // the other members, and those that were, by name
}

// PeerStat is one other node, as this one sees it.
type PeerStat struct {
	Node          string `json:"node"`            // its ID, 32 hex digits
	Name          string `json:"name"`            // as it calls itself
	Address       string `json:"address"`         // of its data connections
	Zone          string `json:"zone"`            // where it stands; empty: not said
	State         string `json:"state"`           // joining, active, draining or leaving
	Suspect       bool   `json:"suspect"`         // it does not answer the membership's probes at the moment
	Member        bool   `json:"member"`          // false: it has left or failed
	CapacityBytes int64  `json:"capacity_bytes"`  // as it says
	FreeBytes     int64  `json:"free_bytes"`      // of those, what it takes without evicting, as it says
	Link          string `json:"link"`            // never: not tried yet; down; merging: both ends tell what was erased; up
	Breaker       string `json:"breaker"`         // closed: it is used; open: it is not; half-open: it is tried
	Usable        bool   `json:"usable"`          // it would be asked for blocks now
	P50NS         int64  `json:"p50_ns"`          // of its answers to gets: half were no slower; 0: none yet
	P95NS         int64  `json:"p95_ns"`          // 95 of 100 were no slower: then another copy is asked
	P99NS         int64  `json:"p99_ns"`          // 99 of 100 were no slower
	InFlightBytes int64  `json:"in_flight_bytes"` // under way from and to it
	Matches       uint64 `json:"matches"`         // calls that asked what it has
	MatchesLate   uint64 `json:"matches_late"`    // of those, not answered in time
	Hits          uint64 `json:"hits"`            // blocks got from it
	Misses        uint64 `json:"misses"`          // blocks that it was asked for and did not have
	Late          uint64 `json:"late"`            // blocks that did not come in time
	Refused       uint64 `json:"refused"`         // blocks that it was too busy for, gets and puts
	Lost          uint64 `json:"lost"`            // blocks that were on their way when that failed: asked for once more, or misses
	Wrong         uint64 `json:"wrong"`           // blocks whose bytes did not fit their checksum: misses
	Hedged        uint64 `json:"hedged"`          // blocks asked of another copy as this one was slow
	HedgesWon     uint64 `json:"hedges_won"`      // blocks that it gave as the second that was asked, and sooner
	Skipped       uint64 `json:"skipped"`         // calls not made: its breaker is open, or it is no member in order
	Failures      uint64 `json:"failures"`        // calls that failed or timed out
	Probes        uint64 `json:"probes"`          // signs of life asked for, in doubt
	StaleHints    uint64 `json:"stale_hints"`     // blocks that were remembered to be there and were not
	Malformed     uint64 `json:"malformed"`       // answers that broke the protocol
	Cause         string `json:"cause,omitempty"` // why the link is down
	Opened        uint64 `json:"opened"`          // times that its breaker opened
	Stored        uint64 `json:"stored"`          // blocks that it stored for this node
	Present       uint64 `json:"present"`         // blocks offered to it that it had
	PutQueueBytes int64  `json:"put_queue_bytes"` // of blocks that wait to be pushed to it, or are
	PutsWrong     uint64 `json:"puts_wrong"`      // blocks that changed in their client's memory on the way to it: dropped
	Described     uint64 `json:"described"`       // times that it was told of a namespace which it did not know
	ReadBytes     uint64 `json:"read_bytes"`      // of the blocks got from it
	WrittenBytes  uint64 `json:"written_bytes"`   // of the blocks that it stored
	ServedBlocks  uint64 `json:"served_blocks"`   // blocks sent to it when it asked
	TakenBlocks   uint64 `json:"taken_blocks"`    // blocks stored here that came from it
	// Way is how blocks travel between it and this node.
	Way transport.Way `json:"way"`
}
