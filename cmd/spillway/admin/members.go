package admin

import (
	"net/http"

	"github.com/spillway-kv/spillway/cluster/member"
)

// PoolMembers is the JSON of /v1/pool/members.
type PoolMembers struct {
	Type       string         `json:"type"`        // pool_members
	Pool       string         `json:"pool"`        // the pool's ID
	Health     int            `json:"health"`      // of this node's own answers: 0 is well, up to 7 is slow or badly connected
	Members    []PoolMember   `json:"members"`     // this node, then those that are, or were
	Seeds      []PoolSeed     `json:"seeds"`       // as configured
	TurnedAway []PoolRefusal  `json:"turned_away"` // who was not let in, the latest
	Counters   PoolMemberWork `json:"counters"`    // since the start
}

// PoolMember is a node of the pool, as it describes itself and as this node sees it.
type PoolMember struct {
	Node          string    `json:"node"`           // its ID, 32 hex digits
	Name          string    `json:"name"`           // unique in the pool
	Self          bool      `json:"self"`           // it is the node that answers
	Health        string    `json:"health"`         // alive, suspect, failed or left
	State         string    `json:"state"`          // joining, active, draining or leaving, as it says
	Address       string    `json:"address"`        // of its data connections
	Gossip        string    `json:"gossip"`         // of its gossip
	Zone          string    `json:"zone"`           // where it stands; empty: not said
	CapacityBytes int64     `json:"capacity_bytes"` // of its stores
	FreeBytes     int64     `json:"free_bytes"`     // of those, what it takes without evicting
	SinceMS       int64     `json:"since_ms"`       // for how long it has been so
	Start         uint64    `json:"start"`          // how often it has been started
	ProtocolLow   int       `json:"protocol_low"`   // versions of the peers' protocol that it speaks
	ProtocolHigh  int       `json:"protocol_high"`  // the highest of them
	Way           string    `json:"way"`            // how blocks come from it now: tcp or rdma; empty: this node, or one that is gone
	Legs          []PoolLeg `json:"legs"`           // ways on which it must be reached; none of this node itself, and of those that are gone
}

// PoolLeg is one way on which a node must be reached.
type PoolLeg struct {
	Leg   string `json:"leg"`    // udp and tcp of the gossip, data
	Error string `json:"error"`  // of the latest test; empty: it works, or was not tested yet
	RTTNS int64  `json:"rtt_ns"` // of a test that went well
}

// PoolSeed is what became of a seed.
type PoolSeed struct {
	Seed      string   `json:"seed"`      // as configured
	Addresses []string `json:"addresses"` // that it stands for at the moment
	Member    bool     `json:"member"`    // all of them are members
	Error     string   `json:"error"`     // of the latest attempt; empty: none
}

// PoolRefusal counts what one address was turned away for.
type PoolRefusal struct {
	Reason string `json:"reason"` // foreign, key mismatch, malformed, incompatible, conflict, over or too many
	From   string `json:"from"`   // its address, or the name that it claims
	Text   string `json:"text"`   // the latest
	Count  int64  `json:"count"`  // how often
	AgeMS  int64  `json:"age_ms"` // since the latest
}

// PoolMemberWork counts what the membership did and refused.
type PoolMemberWork struct {
	Joined       int64 `json:"joined"`       // members that came
	Left         int64 `json:"left"`         // that left in order
	Failed       int64 `json:"failed"`       // that were lost
	Suspected    int64 `json:"suspected"`    // that did not answer for a while
	Foreign      int64 `json:"foreign"`      // packets and connections of another pool
	KeyMismatch  int64 `json:"key_mismatch"` // encrypted with a key that is not here, or not at all
	Malformed    int64 `json:"malformed"`    // that break the format
	Incompatible int64 `json:"incompatible"` // nodes without a common version of the protocol
	Conflicts    int64 `json:"conflicts"`    // nodes with another's name or ID
	PacketsIn    int64 `json:"packets_in"`   // UDP
	PacketsOut   int64 `json:"packets_out"`  // UDP
	BytesIn      int64 `json:"bytes_in"`     // of those packets
	BytesOut     int64 `json:"bytes_out"`    // of those packets
}

func (v *View) poolMembers(p Pool, _ *http.Request) (any, error) {
	all := MembersOf(p.Membership())
	ways := map[string]string{}
	for _, peer := range p.Status().Peers {
		if peer.Member {
			ways[peer.Node] = peer.Way.Name
		}
	}
	for i := range all.Members {
		all.Members[i].Way = ways[all.Members[i].Node]
	}
	return all, nil
}

// MembersOf is what the membership says, as JSON has it.
func MembersOf(s member.Status) PoolMembers {
	c := &s.Counters
	all := PoolMembers{Type: "pool_members", Pool: s.PoolID, Health: s.HealthScore, Members: []PoolMember{}, Seeds: make([]PoolSeed, len(s.Seeds)),
		TurnedAway: make([]PoolRefusal, len(s.Refusals)), Counters: PoolMemberWork{Joined: c.Joined, Left: c.Left, Failed: c.Failed, Suspected: c.Suspected,
			Foreign: c.Foreign, KeyMismatch: c.KeyMismatch, Malformed: c.Malformed, Incompatible: c.Incompatible, Conflicts: c.Conflicts,
			PacketsIn: c.PacketsIn, PacketsOut: c.PacketsOut, BytesIn: c.PacketBytesIn, BytesOut: c.PacketBytesOut}}
	self := member.MemberStatus{Member: s.Self, Health: member.Alive, GossipAddress: s.GossipAddress}
	for _, m := range append([]member.MemberStatus{self}, s.Members...) {
		all.Members = append(all.Members, memberOf(&m))
	}
	for i := range s.Seeds {
		seed := &s.Seeds[i]
		all.Seeds[i] = PoolSeed{seed.Seed, append([]string{}, seed.Addresses...), seed.Member, seed.Error}
	}
	for i := range s.Refusals {
		r := &s.Refusals[i]
		all.TurnedAway[i] = PoolRefusal{string(r.Reason), r.From, r.Text, r.Count, r.Age.Milliseconds()}
	}
	return all
}

func memberOf(m *member.MemberStatus) PoolMember {
	one := PoolMember{Node: m.ID.String(), Name: m.Name, Self: m.Self, Health: string(m.Health), State: m.State.String(), Address: m.Address, Gossip: m.GossipAddress,
		Zone: m.Zone, CapacityBytes: m.CapacityBytes, FreeBytes: m.FreeBytes, SinceMS: m.Since.Milliseconds(), Start: m.Start,
		ProtocolLow: int(m.ProtocolLow), ProtocolHigh: int(m.ProtocolHigh), Legs: []PoolLeg{}}
	for _, l := range m.Legs {
		one.Legs = append(one.Legs, PoolLeg{string(l.Leg), l.Error, l.RTT.Nanoseconds()})
	}
	return one
}
