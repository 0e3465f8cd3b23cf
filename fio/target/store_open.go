package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/job"
)

// contentName is in the descriptor of every namespace of a benchmark, and so tells
// them from those of others.
const contentName = "spillway-fio-1"

// Descriptor is the namespace of a benchmark's blocks of one length.
func Descriptor(number uint16, blockBytes int) engine.Descriptor {
	return engine.Descriptor{Name: "fio", BlockBytes: blockBytes,
		Extra: map[string]string{"content": contentName, "number": strconv.Itoa(int(number))}}
}

// benchmarks says whether a namespace is a benchmark's, of this package or of a
// replay.
func benchmarks(d engine.Descriptor) bool { return d.Extra["content"] != "" }

// sharedStore is a store that stays open between the jobs of a run.
type sharedStore struct {
	store *engine.Store
	mu    sync.Mutex
	open  map[space]*engine.Namespace
}

// space is one namespace of a run.
type space struct {
	number     uint16
	blockBytes int
}

// spacesMax bounds the namespaces of a run.
const spacesMax = 256

func (s *sharedStore) namespace(sp space) (*engine.Namespace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ns := s.open[sp]; ns != nil {
		return ns, nil
	}
	if len(s.open) >= spacesMax {
		return nil, fmt.Errorf("more than %d namespaces, one for each block size: use fewer sizes", spacesMax)
	}
	ns, err := s.store.Namespace(Descriptor(sp.number, sp.blockBytes))
	if err == nil {
		s.open[sp] = ns
	}
	return ns, err
}

func openStore(_ context.Context, s *Set, j *job.Job) (Target, error) {
	dir := filepath.Clean(j.Directory)
	shared := s.stores[dir]
	if shared == nil {
		o, err := s.storeOptions(j, dir)
		if err != nil {
			return nil, err
		}
		st, err := engine.Open(o)
		if err != nil {
			return nil, err
		}
		shared = &sharedStore{store: st, open: map[space]*engine.Namespace{}}
		s.stores[dir] = shared
	}
	return newStoreTarget(shared, j), nil
}

// storeOptions checks the directory, and sizes a new store for all jobs of the run.
func (s *Set) storeOptions(j *job.Job, dir string) (engine.Options, error) {
	o := engine.Options{Dir: dir, RefuseLostIndex: true, IOEngine: device.EngineAuto, BufferedIO: !j.Direct, Logger: s.o.Logger}
	switch j.Backend {
	case job.BackendURing:
		o.IOEngine = device.EngineUring
	case job.BackendPsync:
		o.IOEngine = device.EnginePsync
	}
	writes, capacity, depth := false, int64(0), 32
	for i := range s.jobs {
		other := &s.jobs[i]
		if other.Engine != job.EngineStore || filepath.Clean(other.Directory) != dir {
			continue
		}
		writes = writes || other.Writes
		capacity = max(capacity, other.Capacity, storeBytesFor(other))
		o.CapacityBytes = max(o.CapacityBytes, other.Capacity)
		depth = max(depth, other.IODepth*other.NumJobs)
	}
	o.QueueDepth = min(depth, queueDepthMax)
	fresh, err := s.examineStore(dir)
	switch {
	case err != nil:
		return o, err
	case fresh && !writes:
		return o, fmt.Errorf("directory %s holds no store, and no job writes one: %w: fill it first with rw=write", dir, fs.ErrNotExist)
	case fresh && capacity == 0:
		return o, fmt.Errorf("directory %s %w: a new store needs size= or capacity=", dir, ErrJob)
	case fresh:
		o.CapacityBytes = capacity
	default:
		o.MustExist = true
	}
	return o, nil
}

// queueDepthMax is the device layer's.
const queueDepthMax = 1024

// storeBytesFor is room for a job's blocks, slots rounded up, index and log.
func storeBytesFor(j *job.Job) int64 {
	if j.Size.Bytes == 0 {
		return 0
	}
	const extra = 256 << 20
	return j.Size.Bytes*int64(j.Namespaces)*5/4 + extra
}

// examineStore says whether a new store may be made in dir, and refuses a store
// that is not a benchmark's. It changes nothing.
func (s *Set) examineStore(dir string) (fresh bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, mustBeDirectory(filepath.Dir(dir))
	}
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(filepath.Join(dir, engine.StoreFileName))
	if errors.Is(err, fs.ErrNotExist) {
		for _, e := range entries {
			if !device.Reserved(e.Name()) && e.Name() != "lost+found" {
				return false, fmt.Errorf("directory %s holds %s and is no store: %w: use an empty directory", dir, e.Name(), ErrForeign)
			}
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	facts, err := engine.InspectStoreFile(b)
	if err != nil {
		return false, err
	}
	for _, ns := range facts.Namespaces {
		if !benchmarks(ns.Descriptor) && !s.o.Foreign {
			return false, fmt.Errorf("the store in %s: %w: it has a namespace %q, whose blocks the jobs may evict; use another directory, or allow it with --allow-foreign",
				dir, ErrForeign, ns.Descriptor.Name)
		}
	}
	return false, nil
}
