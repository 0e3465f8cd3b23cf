package target

import (
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
// block's; of a chain, for all blocks that were handed over together.
type storeLane struct {
	t      *storeTarget
	crew   *crew
	spaces map[space]*engine.Namespace // filled by Submit
	memory memory
	touch  touched
	keys   []engine.Key // of one Touch
}

// storeIO is a storeLane's part of an IO.
type storeIO struct {
	ns   *engine.Namespace
	gets []engine.GetItem // of the call that this IO owns
	puts []engine.PutItem
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

// do carries out one call, on a goroutine of the crew or of the worker.
func (l *storeLane) do(call []*IO) {
	for _, io := range call {
		io.StartedAt = time.Time{}
		io.state.(*storeIO).bufs[0] = io.Data
	}
	switch st := call[0].state.(*storeIO); {
	case st.ns == nil:
		for _, io := range call {
			io.Outcome = load.Failed // io.Err says why
		}
	case call[0].Kind == load.Read:
		l.read(call, st)
	default:
		l.write(call, st)
	}
	endCall(call, time.Now())
}

func (l *storeLane) read(call []*IO, owner *storeIO) {
	items := owner.gets[:0]
	for _, io := range call {
		st := io.state.(*storeIO)
		items = append(items, engine.GetItem{Key: engine.Key{Bytes: st.key.of(io.Block, 0)}, Dst: st.bufs[:]})
	}
	owner.gets = items
	err := owner.ns.Get(items, engine.GetOptions{NoTouch: call[0].Chain != 0})
	for i, io := range call {
		io.StartedAt = items[i].StartedAt
		if io.Outcome, io.Err = readOutcome(items[i].Status, items[i].Err); err != nil {
			io.Outcome, io.Err = load.Failed, err
		}
	}
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

func (l *storeLane) write(call []*IO, owner *storeIO) {
	var err error
	for generation := uint64(0); ; generation = l.t.tries.next() {
		items := owner.puts[:0]
		for _, io := range call {
			st := io.state.(*storeIO)
			items = append(items, engine.PutItem{Key: engine.Key{Bytes: st.key.of(io.Block, generation)}, Src: st.bufs[:], Depth: io.Depth})
		}
		owner.puts = items
		err = owner.ns.Put(items, engine.PutOptions{})
		if err != nil || call[0].Chain != 0 || items[0].Status != engine.Present {
			break
		}
	}
	for i, io := range call {
		it := &owner.puts[i]
		io.StartedAt = it.StartedAt
		if io.Outcome, io.Err = writeOutcome(it.Status, it.Err); err != nil {
			io.Outcome, io.Err = load.Failed, err
		}
	}
}

func writeOutcome(status engine.Status, cause error) (load.Outcome, error) {
	switch {
	case status == engine.Stored:
		return load.OK, nil
	case status == engine.Present: // a block of a chain
		return load.Present, nil
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

// Touch implements Toucher.
func (l *storeLane) Touch(namespace uint16, blockBytes int, blocks []uint64) {
	ns, err := l.namespace(space{namespace, blockBytes})
	if err != nil {
		return // the reads have told
	}
	l.touch.tailFirst(blocks, func(keys [][]byte) {
		l.keys = l.keys[:0]
		for _, k := range keys {
			l.keys = append(l.keys, engine.Key{Bytes: k})
		}
		_, _ = ns.Touch(l.keys) // a closed store: the next read tells
	})
}

// Close implements Lane.
func (l *storeLane) Close() error {
	l.crew.close()
	l.memory.unregister()
	l.memory.free()
	return nil
}
