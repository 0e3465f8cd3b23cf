package target

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
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

// storeTarget drives an engine.Store.
type storeTarget struct {
	shared *sharedStore
	j      *job.Job
	tries  *freshKeys
}

// NewStore makes a target of an open store, for tests of what drives targets.
func NewStore(s *engine.Store, j *job.Job) Target {
	return newStoreTarget(&sharedStore{store: s, open: map[space]*engine.Namespace{}}, j)
}

func newStoreTarget(shared *sharedStore, j *job.Job) *storeTarget {
	return &storeTarget{shared, j, newFreshKeys()}
}

// Facts implements Target.
func (t *storeTarget) Facts() Facts {
	st := t.shared.store.Stat()
	return Facts{Engine: job.EngineStore.String(), Path: st.Dir, Device: st.Device, FileSystem: st.FileSystem, Direct: st.DirectIO,
		Notes: []string{"a write of a block that is present already becomes a write of a new one: a store never writes over a block"}}
}

// Close implements Target.
func (t *storeTarget) Close() error { return nil }

// Lane implements Target.
func (t *storeTarget) Lane(int) (Lane, error) {
	l := &storeLane{t: t, spaces: map[space]*engine.Namespace{}}
	l.crew = newCrew(t.j.IODepth, t.j.Offload, l.do)
	return l, nil
}

// storeLane calls Get and Put for one block each, so that each latency is one
// block's.
type storeLane struct {
	t      *storeTarget
	crew   *crew
	spaces map[space]*engine.Namespace // filled by Submit
	memory memory
}

// storeIO is a storeLane's part of an IO.
type storeIO struct {
	ns   *engine.Namespace
	get  [1]engine.GetItem
	put  [1]engine.PutItem
	bufs [1][]byte
	key  blockKey
}

// SpaceBytes implements Lane.
func (l *storeLane) SpaceBytes() int64 { return l.t.j.Size.Bytes }

// NewIO implements Lane.
func (l *storeLane) NewIO(maxBytes int, ended func(*IO)) (*IO, error) {
	b, err := l.memory.take(maxBytes, l.t.shared.store.RegisterMemory)
	return &IO{memory: b, ended: ended, state: &storeIO{}}, err
}

// Submit implements Lane.
func (l *storeLane) Submit(ios []*IO) {
	for _, io := range ios {
		st := io.state.(*storeIO)
		var err error
		if st.ns, err = l.namespace(space{io.Namespace, io.Bytes}); err != nil {
			st.ns = nil
			io.Err = err
		}
	}
	l.crew.submit(ios)
}

func (l *storeLane) namespace(sp space) (*engine.Namespace, error) {
	if ns := l.spaces[sp]; ns != nil {
		return ns, nil
	}
	ns, err := l.t.shared.namespace(sp)
	if err == nil {
		l.spaces[sp] = ns
	}
	return ns, err
}

// do carries out one I/O, on a goroutine of the crew or of the worker.
func (l *storeLane) do(io *IO) {
	st := io.state.(*storeIO)
	io.StartedAt = time.Time{}
	st.bufs[0] = io.Data
	switch {
	case st.ns == nil:
		io.end(load.Failed, io.Err)
	case io.Kind == load.Read:
		l.read(io, st)
	default:
		l.write(io, st)
	}
}

func (l *storeLane) read(io *IO, st *storeIO) {
	it := &st.get[0]
	*it = engine.GetItem{Key: engine.Key{Bytes: st.key.of(io.Block, 0)}, Dst: st.bufs[:]}
	err := st.ns.Get(st.get[:], engine.GetOptions{})
	io.StartedAt = it.StartedAt
	if err != nil {
		io.end(load.Failed, err)
		return
	}
	io.end(readOutcome(it.Status, it.Err))
}

// readOutcome judges an answered read. What failed its checksum is damage; a miss
// with another cause is a failure of the drive or of the store.
func readOutcome(status engine.Status, cause error) (load.Outcome, error) {
	switch {
	case status == engine.Hit:
		return load.OK, nil
	case status == engine.Late:
		return load.Late, cause
	case status == engine.Busy:
		return load.Busy, cause
	case cause == nil || errors.Is(cause, engine.ErrLost):
		return load.Miss, cause
	case errors.Is(cause, engine.ErrCorrupt), errors.Is(cause, io.ErrUnexpectedEOF):
		return load.Damage, cause
	default:
		return load.Failed, cause
	}
}

func (l *storeLane) write(io *IO, st *storeIO) {
	it := &st.put[0]
	for generation := uint64(0); ; generation = l.t.tries.next() {
		*it = engine.PutItem{Key: engine.Key{Bytes: st.key.of(io.Block, generation)}, Src: st.bufs[:], Depth: io.Depth}
		if err := st.ns.Put(st.put[:], engine.PutOptions{}); err != nil {
			io.end(load.Failed, err)
			return
		}
		if it.Status != engine.Present {
			break
		}
	}
	io.StartedAt = it.StartedAt
	io.end(writeOutcome(it.Status, it.Err))
}

func writeOutcome(status engine.Status, cause error) (load.Outcome, error) {
	switch {
	case status == engine.Stored:
		return load.OK, nil
	case status == engine.Late:
		return load.Late, cause
	case status == engine.Busy:
		return load.Busy, cause
	case errors.Is(cause, engine.ErrNoSpace):
		return load.Dropped, cause
	default:
		return load.Failed, cause
	}
}

// Close implements Lane.
func (l *storeLane) Close() error {
	l.crew.close()
	l.memory.unregister()
	l.memory.free()
	return nil
}

// blockKey is memory for a key: block and generation, big-endian, 8 bytes each.
type blockKey [16]byte

func (k *blockKey) of(block, generation uint64) []byte {
	binary.BigEndian.PutUint64(k[:], block)
	binary.BigEndian.PutUint64(k[8:], generation)
	return k[:]
}
