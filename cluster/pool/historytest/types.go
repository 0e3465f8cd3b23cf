package historytest

import "time"

// Mode is the kind of trouble that a history knows.
type Mode string

// The modes. Each has everything that Calm has.
const (
	Calm    Mode = "calm"    // a sound network, all nodes up
	Network Mode = "network" // cuts, one way and both, frozen and slow nodes, deadlines
	Damage  Mode = "damage"  // blocks that are damaged or cut off on their way
	Crashes Mode = "crashes" // kills and power cuts, restarts
	Lies    Mode = "lies"    // a membership that is wrong, and late
	Elastic Mode = "elastic" // nodes that come later, drain, and come back
	All     Mode = "all"     // everything at once
)

// Modes lists all modes.
func Modes() []Mode { return []Mode{Calm, Network, Damage, Crashes, Lies, Elastic, All} }

// History is everything that a run does.
type History struct {
	Seed     uint64
	Mode     Mode
	Config   Config
	Clients  []Client
	Troubles []Trouble
	// RDMA has blocks come by RDMA; Generate leaves it out.
	RDMA bool
}

// Config is what stays the same.
type Config struct {
	Nodes          int
	Spaces         int
	Keys           int // of each namespace
	Copies         int
	LocalPlacement bool
	Tombstones     int // that a node can name
	Hints          int
	DelayMax       time.Duration // of the network, one way
	BytesPerSecond int64         // of the network; 0: without bound
	SilenceMax     time.Duration
	LagMax         time.Duration // of the membership
	DriveMax       time.Duration // a transfer of a drive
	SyncInterval   time.Duration
}

// Client is one caller. It runs its operations one after the other, on one node; while
// the node is down they are passed over.
type Client struct {
	Node int
	Ops  []Op
}

// Kind is an operation of a client.
type Kind string

// The kinds of operations.
const (
	Put    Kind = "put"
	Get    Kind = "get"
	Match  Kind = "match"
	Delete Kind = "delete"
	Drop   Kind = "drop"
)

// Op is one operation. Its keys are From, From+1, ... modulo Config.Keys.
type Op struct {
	Kind     Kind
	Pause    time.Duration // before it begins
	Space    int
	From     int
	Count    int
	Deadline time.Duration // from its begin; 0 is none
	Bounce   bool
	Durable  bool
}

// TroubleKind is what befalls the pool.
type TroubleKind string

// The kinds of troubles. Each ends after its time.
const (
	Cut      TroubleKind = "cut"       // what Node sends to Other is held
	CutBoth  TroubleKind = "cut both"  // and what Other sends to Node
	Isolate  TroubleKind = "isolate"   // Node and all others
	Freeze   TroubleKind = "freeze"    // Node is as if stopped
	Slow     TroubleKind = "slow"      // Node's network
	Damaged  TroubleKind = "damaged"   // blocks on their way
	Chopped  TroubleKind = "chopped"   // blocks on their way, and their links
	Kill     TroubleKind = "kill"      // Node's process, which starts again at the end
	PowerCut TroubleKind = "power cut" // Node's machine
	Doubt    TroubleKind = "doubt"     // Node takes Other for suspect
	Deny     TroubleKind = "deny"      // Node takes Other for failed
	Deafen   TroubleKind = "deafen"    // Node hears nothing of Other
	Late     TroubleKind = "late"      // Node is not there from the beginning; it starts at the end
	Drain    TroubleKind = "drain"     // Node hands its blocks over; then it is to stay after all
)

// Trouble is one of them.
type Trouble struct {
	At, For     time.Duration
	Kind        TroubleKind
	Node, Other int
	Noticed     time.Duration // by the membership, after so long; 0: not
}
