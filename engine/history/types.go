package history

import "time"

// Mode is the kind of trouble that a history knows.
type Mode string

// The modes. Each has everything that Calm has.
const (
	Calm      Mode = "calm"      // clean restarts, evictions, leases, quotas
	Crashes   Mode = "crashes"   // kills and power cuts, also while the store opens
	Deadlines Mode = "deadlines" // slow and stuck transfers, deadlines, bounces, crashes
	Media     Mode = "media"     // segment files with lost, misdirected, torn writes, rot, cut reads
	Errors    Mode = "errors"    // EIO, short transfers, a full file system
	Clients   Mode = "clients"   // callers that change memory which is not theirs at the moment
	Lies      Mode = "lies"      // flipped bits in logs and segment headers while stopped
)

// Modes lists all modes.
func Modes() []Mode { return []Mode{Calm, Crashes, Deadlines, Media, Errors, Clients, Lies} }

// History is everything that a run does. It marshals to JSON and back.
type History struct {
	Seed   uint64
	Mode   Mode
	Config Config
	Lives  []Life
}

// Config is what stays the same over all lives.
type Config struct {
	Spaces        []Space
	Keys          int   // keys per namespace and group
	KeyBytes      int   // length of every key
	CapacityBytes int64 // of the store, at its creation
	SegmentBytes  int64
	FrameBytes    int64
	QueueDepth    int
	SyncInterval  time.Duration
	LeaseShare    float64
	Policy        string `json:",omitempty"` // of eviction; empty: the default

	AlignBytes    int   // of the disk
	DiskBytes     int64 // 0: unlimited
	LatencyMin    time.Duration
	LatencyMax    time.Duration
	SectorsUnlike bool // sectors are smaller than the alignment
}

// Space is one namespace.
type Space struct {
	BlockBytes int
	Revision   string
}

// End says how a life ends.
type End string

// The ends of a life.
const (
	Close    End = "close"
	Kill     End = "kill"
	PowerCut End = "power cut"
)

// Life is one process.
type Life struct {
	CapacityBytes int64 // for this open; 0 keeps it
	Flips         []Flip
	FillBytes     int64         // that somebody else takes of the disk meanwhile
	OpenFaults    *Faults       // while the store opens
	DieOpening    time.Duration // >0: End comes that long after Open begins
	Sweep         bool          // read every key first
	Clients       [][]Op
	Faults        []TimedFaults
	End           End
	EndAfterOps   int           // the end comes when so many operations have begun
	EndDelay      time.Duration // and so much later
	Settled       bool          // the crash comes when nothing can move without time
	KeepPercent   int           // of the unsynced bytes of the index, at a power cut
}

// Flip is one bit to flip while the store is stopped.
type Flip struct {
	Prefix string // of the file names to choose from
	Header bool   // in its first 128 bytes
	Number uint64 // chooses file, byte and bit
}

// TimedFaults replaces the plan at some time after the store has opened.
type TimedFaults struct {
	After  time.Duration
	Faults Faults
}

// Faults is sim.Plan with the names by prefix.
type Faults struct {
	Prefix  string        `json:",omitempty"`
	DelayBy time.Duration `json:",omitempty"`

	ReadEIO, WriteEIO, SyncEIO, MetaEIO  float64 `json:",omitempty"`
	ShortRead, ShortWrite, TruncatedRead float64 `json:",omitempty"`
	Lost, Misdirected, Torn, Rot         float64 `json:",omitempty"`
	Delay, Stuck                         float64 `json:",omitempty"`
}

// Kind is an operation of a client.
type Kind string

// The kinds of operations.
const (
	Put      Kind = "put"
	Get      Kind = "get"
	MatchGet Kind = "matchget"
	Match    Kind = "match"
	Touch    Kind = "touch"
	Delete   Kind = "delete"
	Drop     Kind = "drop"
	Release  Kind = "release"
	Quota    Kind = "quota"
)

// Op is one operation. Its keys are From, From+1, ... modulo Config.Keys.
type Op struct {
	Kind   Kind
	Pause  time.Duration `json:",omitempty"` // before it begins
	Space  int           `json:",omitempty"`
	Group  uint32        `json:",omitempty"`
	From   int           `json:",omitempty"`
	Count  int           `json:",omitempty"`
	Pieces int           `json:",omitempty"`
	// Layout seeds the sizes of the pieces; 0 aligns them as the disk wants it.
	Layout   uint64        `json:",omitempty"`
	Deadline time.Duration `json:",omitempty"` // from its begin; 0 is none, <0 has passed

	Durable    bool  `json:",omitempty"`
	DropIfBusy bool  `json:",omitempty"`
	Importance uint8 `json:",omitempty"`

	Bounce, NoTouch, NoCallback bool `json:",omitempty"`

	// ByID names the blocks by their IDs, and a put its incarnation, both taken when
	// the operation begins. There is no MatchGet by ID.
	ByID bool `json:",omitempty"`

	Lease    time.Duration `json:",omitempty"`
	Trailing int           `json:",omitempty"`

	// Meddle changes a word of item Victim that long after the begin.
	Meddle time.Duration `json:",omitempty"`
	// Victim is also the lease to release, or the quota in segments.
	Victim int `json:",omitempty"`
}
