// Package work is the side of the benchmark that runs in a child process: each
// job opens what it measures, measures, and ends, so that the process's CPU time
// and memory are the job's alone.
package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// The values of Job.Work.
const (
	Fill      = "fill"       // put blocks into a store
	Transfer  = "transfer"   // get and put blocks of a store
	FillFiles = "fill-files" // write one file per block
	ReadFiles = "read-files" // read files
	Null      = "null"       // drive the null device
	Resident  = "resident"   // memory per indexed block
	Reopen    = "reopen"     // open a store
	Scan      = "scan"       // read the entries of a store's index with Pebble alone
	Cost      = "cost"       // CPU time of get, put and match
	Prove     = "prove"      // CPU time of hashing blocks just read
	Mounted   = "mounted"    // get blocks of a store that a daemon in another process serves

	PoolFill  = "pool-fill"  // put blocks through a daemon that runs already
	PoolRead  = "pool-read"  // get blocks through it
	PoolMatch = "pool-match" // ask it which blocks are there
	BareRead  = "bare-read"  // read and hash blocks over plain sockets

	// ServeStore and ServeBare are the other ends: they have no sample, and end with
	// their input.
	ServeStore = "serve-store"
	ServeBare  = "serve-bare"
)

// The values of Job.Cache.
const (
	Direct = "direct" // past the page cache
	Cold   = "cold"   // through the page cache, emptied before
	Warm   = "warm"   // through the page cache, filled before
)

// Job is what one child does. Fields that its work does not name are ignored.
type Job struct {
	Work string
	// Cgroup is a memory cgroup's folder that the child enters first; "" is none.
	Cgroup string
	// Dir is the store's directory, or that of the files; Prove: the file.
	Dir           string
	CapacityBytes int64  // of a new store
	Hollow        bool   // the store's slots lie on the null device
	IOEngine      string // of the store or the device
	Rings         int
	BlockBytes    int
	Blocks        int   // Fill: how many; else how many to choose from
	Full          bool  // Fill: put blocks of importance 0 behind them, until each put makes room
	First         int   // Transfer, Cost: number of the first new block; Pool...: of the first block
	Steps         []int // Resident: numbers of blocks at which to look
	Depth         int   // calls at once
	Batch         int   // Transfer, PoolRead: blocks of one get; 0 is 1
	SmallPages    bool  // Transfer: memory of 4 KiB pages, not registered
	SharedPages   bool  // Transfer, BareRead: memory as a client shares it: a memfd's pages, registered
	Runtime       time.Duration
	Seed          uint64
	ReadShare     float64 // Transfer: share of gets; the others put new blocks
	Cache         string  // ReadFiles
	Socket        string  // ServeStore, Pool...: of the daemon; ...Bare: host and port
	Connections   int     // BareRead
	Daemons       []int   // Pool...: processes whose CPU time counts, too
	Warm          int     // PoolRead: blocks to be read before; PoolMatch: how many are there
	Beside        int     // PoolRead: first block that one more caller asks for, unmeasured; 0: none
}

// Sample is what one run measured. Latencies are of reads, or of writes where
// there are no reads; Values holds what only some kinds of work measure.
type Sample struct {
	Ops        float64            `json:"ops,omitempty"`
	Seconds    float64            `json:"seconds,omitempty"`     // of the measured part
	CPUSeconds float64            `json:"cpu_seconds,omitempty"` // user and system, in the measured part
	IOPS       float64            `json:"iops,omitempty"`        // reads and writes
	P50NS      float64            `json:"p50_ns,omitempty"`
	P99NS      float64            `json:"p99_ns,omitempty"`
	P999NS     float64            `json:"p99_9_ns,omitempty"`
	Values     map[string]float64 `json:"values,omitempty"`
}

// Serve reads a Job as JSON, does it, and writes its Sample as JSON.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var j Job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	switch j.Work {
	case ServeStore:
		return j.serve(in, out)
	case ServeBare:
		return j.serveBare(in, out)
	}
	if err := enterCgroup(j.Cgroup); err != nil {
		return err
	}
	stop, err := profile(j.Work)
	if err != nil {
		return err
	}
	s, err := j.do(ctx)
	err = errors.Join(err, stop())
	if err != nil {
		return fmt.Errorf("%s: %w", j.Work, err)
	}
	return json.NewEncoder(out).Encode(s)
}

// ProfileEnv names the variable whose value is the folder for CPU profiles, one
// per job, named by its work.
const ProfileEnv = "SPILLWAY_BENCH_PROFILES"

// profile takes a CPU profile until stop, if it is asked for.
func profile(name string) (stop func() error, err error) {
	folder := os.Getenv(ProfileEnv)
	if folder == "" {
		return func() error { return nil }, nil
	}
	f, err := os.CreateTemp(folder, name+"-*.prof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

func (j *Job) do(ctx context.Context) (Sample, error) {
	switch j.Work {
	case Fill:
		return j.fill(ctx)
	case Transfer:
		return j.transfer(ctx)
	case FillFiles:
		return Sample{}, j.fillFiles(ctx)
	case ReadFiles:
		return j.readFiles(ctx)
	case Null:
		return j.null(ctx)
	case Resident:
		return j.resident(ctx)
	case Reopen:
		return j.reopen()
	case Scan:
		return j.scan()
	case Cost:
		return j.cost(ctx)
	case Prove:
		return j.prove(ctx)
	case Mounted:
		return j.mounted(ctx)
	case PoolFill:
		return j.poolFill(ctx)
	case PoolRead:
		return j.poolRead(ctx)
	case PoolMatch:
		return j.poolMatch(ctx)
	case BareRead:
		return j.bareRead(ctx)
	}
	return Sample{}, errors.New("no such work")
}

// open opens the job's store and namespace.
func (j *Job) open() (*engine.Store, *engine.Namespace, error) {
	o := engine.Options{Dir: j.Dir, CapacityBytes: j.CapacityBytes, IOEngine: j.IOEngine, Rings: j.Rings, QueueDepth: max(j.Depth, 32)}
	if j.Hollow {
		if err := j.hollow(&o); err != nil {
			return nil, nil, err
		}
	}
	s, err := engine.Open(o)
	if err != nil {
		return nil, nil, err
	}
	ns, err := s.Namespace(j.descriptor())
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, ns, nil
}

// key is 32 bytes long, as offload layers have them.
func key(n int) engine.Key { return engine.Key{Bytes: fmt.Appendf(nil, "bench-%026d", n)} }

func enterCgroup(folder string) error {
	if folder == "" {
		return nil
	}
	return os.WriteFile(folder+"/cgroup.procs", fmt.Append(nil, os.Getpid()), 0)
}

func (j *Job) descriptor() engine.Descriptor {
	return engine.Descriptor{Name: "bench", BlockBytes: j.BlockBytes}
}
