package memory

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// Tier keeps blocks. All methods may be called from many goroutines; none waits for
// anything but its lock.
type Tier struct {
	arena  *arena.Arena
	mode   Mode
	verify bool
	began  time.Time

	mu       sync.Mutex
	policies evict.Factory
	policy   evict.Policy
	entries  []entry // by handle; a free one has no frame
	free     []evict.Handle
	byID     map[[16]byte]evict.Handle
	readers  readers
	counts   Stat
}

// entry is a block that is kept.
type entry struct {
	version engine.Version
	frame   arena.Frame
	owner   uint32
	depth   uint32
	sum     uint64 // of the bytes, if the tier verifies
	reader  uint64 // the first client that has read it; 0: none
	ahead   bool   // fetched ahead, and not read since
}

// entriesMax bounds the blocks of a tier: each takes some hundred bytes beside its frame.
const entriesMax = 1 << 22

// New takes the memory of a tier, which lasts seconds for many GiB.
func New(o Options) (*Tier, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Mode == "" {
		o.Mode = Exclusive
	}
	if o.Policy == nil {
		o.Policy = evict.NewLRU
	}
	a, err := arena.New(arena.Options{Bytes: o.Bytes, Pages: o.Pages, Nodes: o.Nodes})
	if err != nil {
		return nil, err
	}
	policies, err := o.Policy(int(min(o.Bytes/arena.AlignBytes, entriesMax)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("memory tier: %w", err), a.Close())
	}
	return &Tier{arena: a, mode: o.Mode, verify: o.Verify, began: time.Now(), policies: policies, policy: policies.New(),
		byID: map[[16]byte]evict.Handle{}}, nil
}

// Facts say what memory the machine granted.
func (t *Tier) Facts() arena.Facts { return t.arena.Facts() }

// Mode is the tier's.
func (t *Tier) Mode() Mode { return t.mode }

// Register makes all of the tier's memory known to what moves data.
func (t *Tier) Register(r arena.Registrar, pieceBytes int64) (release func(), err error) {
	return t.arena.Register(r, pieceBytes)
}

// Close gives the memory back. Every block and every room that was lent must have
// been given back.
func (t *Tier) Close() error {
	t.mu.Lock()
	for h := range t.entries {
		if t.entries[h].frame.Valid() {
			t.dropLocked(evict.Handle(h))
		}
	}
	t.policies.Free()
	t.policies = nil
	t.mu.Unlock()
	return t.arena.Close()
}

// Item is a block that is asked for, and the answer.
type Item struct {
	Version engine.Version
	Depth   uint32 // position in its chain
	Block   Block  // what Find has found; to be released
}

// Find looks for blocks on behalf of a reader (any number but 0 that names him),
// given in the order of their chain, and returns how many it has found.
func (t *Tier) Find(reader uint64, items []Item) (found int) {
	for to := len(items); to > 0; to -= findMax { // tail first: a leaf ages before its parent
		found += t.findSome(reader, items[max(0, to-findMax):to])
	}
	return found
}

// findMax bounds the blocks that are looked for under one hold of the lock.
const findMax = 1024

func (t *Tier) findSome(reader uint64, items []Item) (found int) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(items) - 1; i >= 0; i-- {
		it := &items[i]
		it.Block = Block{}
		h, ok := t.lookLocked(it.Version)
		if !ok {
			continue
		}
		e := &t.entries[h]
		e.frame.Retain()
		it.Block = Block{tier: t, frame: e.frame, sum: e.sum}
		found++
		t.readLocked(h, reader, it.Depth, now)
	}
	return found
}

// readLocked notes that a block is read.
func (t *Tier) readLocked(h evict.Handle, reader uint64, depth uint32, now int64) {
	e := &t.entries[h]
	t.counts.Hits++
	t.counts.HitBytes += uint64(len(e.frame.Bytes()))
	if e.ahead {
		e.ahead = false
		t.counts.AheadUsed++
	}
	importance := uint8(kept)
	if t.mode == Exclusive {
		switch e.reader {
		case 0, reader:
			e.reader, importance = reader, spent
		default:
			e.reader = shared
		}
	}
	t.policy.Touch(h, evict.Access{ID: e.version.ID, Depth: depth, Importance: importance, NowNS: now})
}

// lookLocked finds a block. One of another version under the same ID is of no use
// any more.
func (t *Tier) lookLocked(v engine.Version) (evict.Handle, bool) {
	h, ok := t.byID[v.ID]
	if !ok || v.Position == 0 {
		return 0, false
	}
	switch have := t.entries[h].version.Position; {
	case have == v.Position:
		return h, true
	case have < v.Position:
		t.counts.Stale++
		t.dropLocked(h)
	}
	return 0, false
}

// Holds says which blocks are here, true in place i for version i. It is no use of them.
func (t *Tier) Holds(versions []engine.Version) []bool {
	held := make([]bool, len(versions))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, v := range versions {
		_, held[i] = t.lookLocked(v)
	}
	return held
}

// Wanted says whether a block that a reader is about to read from a drive belongs
// here, and remembers the reader.
func (t *Tier) Wanted(reader uint64, v engine.Version) bool {
	if v.Position == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Misses++
	return t.mode == Inclusive || t.readers.other(v, reader)
}

// dropLocked lets go of a block that is of no use any more.
func (t *Tier) dropLocked(h evict.Handle) {
	t.policy.Forget(h)
	t.takeLocked(h)
}

// takeLocked ends an entry that the policy has let go.
func (t *Tier) takeLocked(h evict.Handle) {
	e := &t.entries[h]
	if e.ahead {
		t.counts.AheadWaste++
	}
	t.counts.Blocks--
	t.counts.Bytes -= int64(len(e.frame.Bytes()))
	delete(t.byID, e.version.ID)
	e.frame.Release()
	*e = entry{}
	t.free = append(t.free, h)
}

func (t *Tier) now() int64 { return time.Since(t.began).Nanoseconds() }
