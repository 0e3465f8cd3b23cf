// Package job reads fio's job files and fio's command line into typed jobs.
//
// Parse(args []string, own []Flag) (*Run, error) is the door. The table in table.go is the one list of options: parser,
// help, reference page and suggestions are made from it. A Job has all defaults
// resolved and needs no further check of single values; what only the target can
// know (does the file exist, is it large enough) is left to the target.
package job

import (
	"time"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// Index of arrays with one entry for reads and one for writes.
const (
	Read  = 0
	Write = 1
)

// Engine is what a job drives.
type Engine uint8

// Engines.
const (
	EngineRaw   Engine = iota // files or a block device, through the device layer
	EngineStore               // a store in this process
	EnginePool                // a running daemon, through its socket
	EngineNull                // nothing: the harness alone
)

var engineNames = [...]string{"raw", "store", "pool", "null"}

func (e Engine) String() string { return engineNames[e] }

// Backend is the way the device layer takes to the medium.
type Backend uint8

// Backends of raw and store.
const (
	BackendAuto  Backend = iota // io_uring, or psync where io_uring is refused
	BackendURing                // io_uring or an error
	BackendPsync                // pread and pwrite on workers
)

var backendNames = [...]string{"auto", "io_uring", "psync"}

func (b Backend) String() string { return backendNames[b] }

// Amount is a length or a place: bytes, or a share of the target's size.
type Amount struct {
	Bytes   int64
	Percent int // 1 to 100, else 0: Bytes counts
}

// Share is one entry of a mix of block sizes.
type Share struct {
	Bytes   int64
	Percent float64 // all shares of a mix sum to 100
}

// Blocks are the block sizes of one direction. With a Split its sizes are
// drawn by their shares; otherwise sizes are uniform in [MinBytes, MaxBytes], in
// steps of MinBytes.
type Blocks struct {
	MinBytes, MaxBytes int64 // equal for a fixed size; with a Split the extremes of it
	Split              []Share
	AlignBytes         int64 // random offsets are multiples of it; MinBytes unless blockalign says else
}

// Shape is a random distribution.
type Shape uint8

// Shapes.
const (
	Uniform Shape = iota
	Zipf          // Parameter is theta, > 0, not 1
	Pareto        // Parameter is h, between 0 and 1
	Normal        // Parameter is the deviation in percent of the space
	Zoned         // Zones say
)

var shapeNames = [...]string{"random", "zipf", "pareto", "normal", "zoned"}

func (s Shape) String() string { return shapeNames[s] }

// Zone is one entry of a zoned distribution: that percentage of the accesses
// goes to the next that percentage of the space.
type Zone struct{ AccessPercent, SpacePercent float64 }

// Distribution says which blocks of the space random I/O favours.
type Distribution struct {
	Shape     Shape
	Parameter float64
	Center    float64 // of zipf, pareto and normal: 0 to 1, the hot place as a share of the space; -1: fio's default, hashed over the space
	Zones     []Zone
}

// Errors is a set of kinds of errors that a job survives.
type Errors uint8

// Kinds of errors.
const (
	ReadErrors Errors = 1 << iota
	WriteErrors
	VerifyErrors
)

// Check is how a job proves what it reads.
type Check uint8

// Checks. Blocks describe themselves in all but CheckNone: the payload names
// key, version and seed.
const (
	CheckNone Check = iota
	CheckCRC32C
	CheckSHA256
	CheckXXHash
	CheckPattern // the whole payload is made from key and version, and compared
)

var checkNames = [...]string{"0", "crc32c", "sha256", "xxhash", "pattern"}

func (c Check) String() string { return checkNames[c] }

// Steady is when a job may stop because its rate has become steady. fio's
// meaning: Criterion is measured over Duration.
type Steady struct {
	Criterion Criterion
	Limit     float64 // in percent of the mean if Percent, else IOPS or bytes per second; for a slope, from one Interval to the next
	Percent   bool
	Duration  time.Duration // 0: steadystate is off
	RampTime  time.Duration
	Interval  time.Duration // between checks
}

// Criterion of a Steady.
type Criterion uint8

// Criteria.
const (
	SteadyIOPS Criterion = iota
	SteadyIOPSSlope
	SteadyBandwidth
	SteadyBandwidthSlope
)

var criterionNames = [...]string{"iops", "iops_slope", "bw", "bw_slope"}

func (c Criterion) String() string { return criterionNames[c] }

// Setting is one option as it was written. Value is empty for a flag without one.
type Setting struct{ Name, Value string }

// Chat is the load of conversations that go on turn by turn; package load makes it.
type Chat struct {
	Sessions  int // that are live at a time, all workers together; 0: no chat
	Kind      trace.Kind
	PerSecond float64 // of sessions that begin; 0: one begins when another ends
	Think     float64 // scales the pauses between turns, 155 s in the median at 1; 0: none
}

// Job is one job: numjobs equal workers. Zero means off where nothing else is said.
type Job struct {
	Name        string
	FileStem    string // what files in Directory are named after; empty: Name
	Description string
	File        string // where it is defined: a path, or "command line"
	Line        int    // 0 on the command line
	Index       int    // its place in Run.Jobs
	NumJobs     int    // at least 1

	// Order. Jobs of one phase start together, when all jobs of the phase before
	// have ended. WaitFor is the index of an earlier job that must end first, or -1.
	// Group is fio's groupid.
	Phase          int
	WaitFor        int
	Group          int
	GroupReporting bool

	// Target.
	Engine     Engine
	Backend    Backend
	Direct     bool
	Directory  string
	Filenames  []string // as written, Directory not yet put before them
	Size       Amount   // of the range, all files together; 0: the whole target
	IOSize     Amount   // bytes to transfer; 0: Size once
	Offset     Amount   // where the range begins
	Socket     string   // of the daemon, for pool
	Capacity   int64    // bytes, for a store that is made
	Namespaces int      // how many the load is spread over, at least 1

	// Pattern.
	Reads, Writes   bool // which directions there are
	Random          bool
	ReadPercent     int       // of the operations, when there are both; 0 to 100
	SequentialRun   int       // operations before a new random place (rw=randread:N), at least 1
	SequentialSkip  int64     // bytes added after each sequential operation (rw=read:SIZE)
	Blocks          [2]Blocks // by direction
	Distribution    Distribution
	NoRandomMap     bool // blocks may repeat before all have been visited
	RandSeed        uint64
	RandRepeat      bool // false: the seed is to be mixed with something new in each run
	NumberIOs       int64
	IODepth         int
	Offload         bool // io_submit_mode=offload
	CompressPercent int  // of each payload that compresses away
	DedupePercent   int  // of payloads that equal an earlier one
	RefillBuffers   bool

	// Time.
	Runtime    time.Duration
	TimeBased  bool             // start over until Runtime has passed
	RampTime   time.Duration    // in front of Runtime, not counted
	StartDelay [2]time.Duration // each worker draws from [0] to [1]

	// Rate, for each worker; 0: closed loop.
	RateBytes   [2]int64 // bytes per second, by direction
	RateIOPS    [2]int64 // by direction
	Poisson     bool
	ThinkTime   time.Duration
	ThinkBlocks int64 // operations between two of them, at least 1

	// What blocks hold. A Model has set Blocks.
	Model       string // of tiering/model; empty: none
	BlockTokens int    // of a block, at least 1

	// Traces and chats replace the pattern.
	Trace       string  // a file
	TraceFormat string  // mooncake, azure or mlperf
	TraceSpeed  float64 // 1: real time; 2: twice as fast; 0: no waiting
	Chat        Chat

	// Proof.
	Verify          Check
	DoVerify        bool // read back after writing
	VerifyOnly      bool
	ContinueOnError Errors

	// Report.
	Percentiles                     []float64 // rising
	ClatPercentiles                 bool
	LatPercentiles, SlatPercentiles bool
	SteadyState                     Steady

	// Settings are the job's own options, in the order written, those of
	// [global] left out.
	Settings []Setting

	effective []Setting // the same with those of [global] in front
	walled    bool      // the place in the files, and no option, makes the stonewall
}
