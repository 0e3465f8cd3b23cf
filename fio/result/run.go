package result

import (
	"os"
	"sync"
	"time"
)

// Config says what a run reports.
type Config struct {
	Version       string // of the program, as in "spillway-1.0"
	GlobalOptions Options
	// ExitCode is that of an error; 1 for all if nil.
	ExitCode func(error) int
	// Page, if set, writes what else tells of the run, when it has ended and before the
	// document is written; its error is the run's, unless that has one.
	Page func() error
}

// WorkerConfig names a worker: one clone of a job.
type WorkerConfig struct {
	Job     string // its section
	Group   int
	Options Options // of its section
	// Grouped: all workers of the group that say so are one entry of the
	// document, under the first one's name (group_reporting).
	Grouped    bool
	Depth      int         // iodepth
	BlockBytes int64       // the largest block of the job
	Target     string      // what it drives, in words, as in "raw, io_uring, direct, ext4"
	Directions []Direction // that it uses; read and write if empty
	// Requests: the reads are those of requests of an engine, which load whole prefixes.
	Requests bool
	// OpenLoop: I/Os have an intended start, and lat_ns runs from it.
	OpenLoop        bool
	ContinueOnError bool
	// Percentiles are those reported, ascending, of the latencies that are wanted;
	// these have bins too. fio's default is clat alone.
	Percentiles     []float64
	Slat, Clat, Lat bool
}

// Run collects what the workers of a run measure. It may be used from many
// goroutines, and a document can be had at any time.
type Run struct {
	config Config
	start  time.Time

	mu       sync.Mutex
	workers  []*Recorder
	extra    Spillway
	observed *observed // nil before the first Observe
	// Of so many calls of Tick every ticksKept-th is kept.
	ticks, ticksKept int
}

// NewRun starts a run.
func NewRun(config Config, start time.Time) *Run {
	return &Run{config: config, start: start, ticksKept: 1, extra: Spillway{Version: config.Version, PID: os.Getpid()}}
}

// AddWorker makes the recorder of a worker. Entries of the document are in the
// order of these calls.
func (r *Run) AddWorker(config WorkerConfig) *Recorder {
	recorder := newRecorder(config)
	r.mu.Lock()
	r.workers = append(r.workers, recorder)
	r.mu.Unlock()
	return recorder
}

// Amend changes what the document says under "spillway".
func (r *Run) Amend(change func(*Spillway)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.extra)
}
