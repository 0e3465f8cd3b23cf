package member

import "time"

// Health is what the membership thinks of a member.
type Health string

// Healths.
const (
	Alive   Health = "alive"
	Suspect Health = "suspect" // it does not answer this node at the moment
	Failed  Health = "failed"  // it is no member any more, and looked for
	Left    Health = "left"    // it has left in order
)

// Leg is one way on which a member must be reachable.
type Leg string

// Legs.
const (
	LegUDP  Leg = "udp"  // gossip's, there and back
	LegTCP  Leg = "tcp"  // gossip's, there and back
	LegData Leg = "data" // a data connection, there
)

// LegStatus is the latest test of a leg.
type LegStatus struct {
	Leg    Leg
	Tested bool
	// Error names leg, member and address, as in "udp probe failing to n2 (192.0.2.2:7421): no
	// answer"; empty: it works.
	Error string
	RTT   time.Duration // of a test that went well
	Age   time.Duration // since the test
}

// MemberStatus is a member, or one that was.
type MemberStatus struct {
	Member
	Health        Health
	Since         time.Duration // for how long it has been so, as this node saw it
	GossipAddress string
	Legs          []LegStatus // none of this node itself and of those that are gone
	Keys          []string    // fingerprints of its gossip keys, the first encrypts
}

// SeedStatus is what became of a seed.
type SeedStatus struct {
	Seed      string
	Addresses []string // what the name stands for at the moment
	Member    bool     // all of them are members, or this node
	Error     string   // of the latest attempt
	Attempts  int64
}

// Refusal is what somebody was turned away for.
type Refusal string

// Refusals.
const (
	RefusedForeign      Refusal = "foreign"      // another pool's ID, or none
	RefusedKey          Refusal = "key mismatch" // encrypted with a key that is not here, or not at all
	RefusedMalformed    Refusal = "malformed"    // breaks the format
	RefusedIncompatible Refusal = "incompatible" // no common version of the peers' protocol
	RefusedConflict     Refusal = "conflict"     // its name or its ID is another live node's
	RefusedOver         Refusal = "over"         // a life that has left, or was forgotten
	RefusedFull         Refusal = "too many"     // MembersMax are here
)

// RefusalStatus counts what one address was turned away for.
type RefusalStatus struct {
	Reason Refusal
	From   string // its address, or the name it claims
	Text   string // the latest
	Count  int64
	Age    time.Duration // since the latest
}

// Counters count since the start.
type Counters struct {
	Foreign, KeyMismatch, Malformed, Incompatible, Conflicts, Over, TooMany int64 // see Refusal

	PacketsIn, PacketsOut, PacketBytesIn, PacketBytesOut int64 // UDP, without its headers
	StreamsIn, StreamsOut                                int64 // TCP
	StreamsRefused                                       int64 // beyond the bound
	Joined, Left, Failed                                 int64 // members, as this node saw them
	Joins, JoinsFailed                                   int64 // attempts to reach seeds and lost members
	Suspected                                            int64 // members that did not answer this node
	ProbesDropped                                        int64 // questions of others beyond the bound
	LinesDropped                                         int64 // of the log, beyond its rate
}

// Status is a node's view of its pool. All durations are by its own monotonic clock.
type Status struct {
	PoolID        string
	Self          Member
	GossipAddress string // as others reach it
	Profile       Profile
	Encrypted     bool
	Established   bool   // the first round of seeds is through, and nobody disputes name and ID
	Refused       string // why this node must stop; empty: it need not
	HealthScore   int    // of this node: 0 is well, up to 7 is slow or badly connected
	Members       []MemberStatus
	Seeds         []SeedStatus
	Refusals      []RefusalStatus // the latest, at most RefusalsMax
	Counters      Counters
}

// Bounds of what is remembered.
const (
	MembersMax  = 4096 // of a pool
	RefusalsMax = 64
	lostMax     = 256  // failed and left members that are remembered
	overMax     = 1024 // lives that are over
)
