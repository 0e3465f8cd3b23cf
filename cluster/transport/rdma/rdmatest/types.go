package rdmatest

import "time"

// Mode is the kind of trouble that a history knows.
type Mode string

// The modes.
const (
	Calm    Mode = "calm"    // nothing ends early, nothing fails
	Hasty   Mode = "hasty"   // deadlines and cancels
	Fabric  Mode = "fabric"  // and faults of ports, devices and ways of RDMA
	Control Mode = "control" // and of the network of the calls
	Frozen  Mode = "frozen"  // and processes and machines that stand still for a while
	Crashes Mode = "crashes" // and kills and power cuts, restarts
	Stuck   Mode = "stuck"   // and queue pairs that cannot be destroyed: their memory never comes back
	All     Mode = "all"     // everything but Stuck at once
)

// Modes lists all modes.
func Modes() []Mode { return []Mode{Calm, Hasty, Fabric, Control, Frozen, Crashes, Stuck, All} }

// History is everything that a run does.
type History struct {
	Seed     uint64
	Mode     Mode
	Config   Config
	Clients  []Client
	Troubles []Trouble
}

// Config is what stays the same. Times and bytes are those of rdma.Options and of the
// simulations.
type Config struct {
	Ports           []int   // of each node
	LockBytes       []int64 // of each node; 0: without bound
	DelayMax        time.Duration
	BytesPerSecond  int64
	SilenceMax      time.Duration
	FabricDelay     time.Duration
	FabricRate      int64
	BurstPackets    int
	SettleMax       time.Duration
	DestroyMax      time.Duration
	Timeout         uint8
	Retries         uint8
	PieceBytes      int
	PostedBytes     int64
	LandingBytes    int64
	InFlight        int64
	FenceTime       time.Duration
	OpenTime        time.Duration
	PauseMin        time.Duration
	PauseMax        time.Duration
	RegisteredParts int // the known memory of a node is made known in so many pieces
}

// Client is one caller. It runs its operations one after the other, over the link that its
// node has to another; while its node is down they are passed over.
type Client struct {
	Node, Other int
	Ops         []Op
}

// Kind is an operation of a client.
type Kind string

// The kinds of operations.
const (
	Fetch    Kind = "fetch"
	Call     Kind = "call"
	Push     Kind = "push"
	Close    Kind = "close"    // the link, whatever it carries
	Register Kind = "register" // waits until none of its node's known memory is in use, and makes it known anew
)

// Op is one operation.
type Op struct {
	Kind     Kind
	Pause    time.Duration // before it begins
	Blocks   []Block       // of a Fetch
	Deadline time.Duration // from its begin; 0: none
	Cancel   bool          // the peer does not know of the deadline
	CancelAt int           // given up when so many blocks have arrived; 0: not
	Quiet    bool          // without Arrived
	Waits    bool          // the peer's handler returns when it is done with all blocks
}

// What becomes of a block at the peer.
type What uint8

// Whats.
const (
	Send   What = iota
	Miss        // there is none
	Refuse      //
	Forget      // the handler says nothing of it
	Longer      // than the caller has room for
	Fail        // the handler fails here
)

// Block is a block of a Fetch.
type Block struct {
	Bytes  int
	Pieces int // of its destination, and of its source
	Known  bool
	// SourceKnown says that it is sent from memory that the transport knows.
	SourceKnown bool
	What        What
	Read        time.Duration // before the peer has it
	Apart       bool          // it is answered from another goroutine, in its own time
}

// TroubleKind is what befalls the nodes.
type TroubleKind string

// The kinds of troubles. Each ends after its time.
const (
	CutCalls  TroubleKind = "cut calls"    // between Node and Other
	CutWrites TroubleKind = "cut writes"   // what Node sends to Other by RDMA
	CutBack   TroubleKind = "cut back"     // and what Other sends to Node
	CutAll    TroubleKind = "cut all"      // all between Node and Other
	PortDown  TroubleKind = "port down"    // one of Node's
	Device    TroubleKind = "device fault" // of one of Node's
	Breaks    TroubleKind = "breaks"       // queue pairs fail by themselves
	SlowCalls TroubleKind = "slow calls"   // of Node
	Stick     TroubleKind = "stick"        // Node's queue pairs cannot be destroyed
	Plain     TroubleKind = "plain"        // Node is told to do without RDMA
	Stop      TroubleKind = "stop"         // Node's process
	Freeze    TroubleKind = "freeze"       // Node's machine
	Kill      TroubleKind = "kill"         // Node's process, which starts again at the end
	PowerCut  TroubleKind = "power cut"    // Node's machine
)

// Trouble is one of them.
type Trouble struct {
	At, For     time.Duration
	Kind        TroubleKind
	Node, Other int
	Port        int
}
