package target

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
)

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
	l := &storeLane{t: t, spaces: map[space]*engine.Namespace{}, memory: memory{ios: t.j.IODepth}}
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

// DepthMax implements Lane.
func (l *storeLane) DepthMax() int { return l.t.j.IODepth }

// SpaceBytes implements Lane.
func (l *storeLane) SpaceBytes() int64 { return l.t.j.Size.Bytes }

// NewIO implements Lane.
func (l *storeLane) NewIO(maxBytes int, ended func(*IO)) (*IO, error) {
	b, err := l.memory.take(maxBytes, l.t.shared.store.RegisterMemory)
	return &IO{memory: b, ended: ended, state: &storeIO{}}, err
}

// Identity implements Lane.
func (l *storeLane) Identity(op *load.Op) payload.Identity {
	return payload.Of(op.Namespace, op.Bytes, op.Block)
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
