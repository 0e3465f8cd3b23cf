// Package member says who belongs to a pool: which nodes there are, where their data
// connections are answered, how much room they have and whether they take new blocks.
// It knows nothing of blocks, stores or data connections.
package member

import (
	"encoding/hex"
	"fmt"
)

// ID is a node's own for ever: made once, kept beside its data. A node that comes back
// under another address or name is known by it.
type ID [16]byte

// String is 32 hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String wrote.
func ParseID(s string) (id ID, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("node ID %q: want %d hex digits", s, 2*len(id))
	}
	return ID(b), nil
}

// State is what a node says of itself.
type State uint8

// States. Only an active node gets new blocks; active and draining ones are asked for theirs.
const (
	Joining  State = iota // it has not merged what was erased yet: it answers nobody
	Active                // it takes new blocks
	Draining              // it hands its blocks over, and then leaves
	Leaving               // it stops; ask it for nothing
)

var stateNames = [...]string{"joining", "active", "draining", "leaving"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Member is a node of the pool, as it describes itself.
type Member struct {
	ID            ID
	Start         uint64 // which of its lives this is: rises with each start, see Identity
	Name          string // unique in the pool
	Address       string // host:port of its data connections
	Zone          string // where it stands; may be empty
	State         State
	CapacityBytes int64
	FreeBytes     int64 // what it can still take without evicting, roughly
	ProtocolLow   uint8 // versions of the peers' protocol that it speaks
	ProtocolHigh  uint8
	Suspect       bool // it does not answer this node's probes at the moment
	Self          bool
}

// Membership is a node's view of its pool. All methods may be called from many
// goroutines, and none waits for another node.
type Membership interface {
	// Members are all that are not known to have failed or left, this node included,
	// by rising ID. The slice is the caller's.
	Members() []Member
	// Changed is closed at the next change of what Members says.
	Changed() <-chan struct{}
	// Announce changes what this node says of itself: its state and room. The others
	// learn it within moments.
	Announce(state State, capacityBytes, freeBytes int64)
}
