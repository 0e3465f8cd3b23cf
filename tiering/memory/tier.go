package memory

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

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
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(items) - 1; i >= 0; i-- { // tail first: a leaf ages before its parent
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

// Room lends a frame of a block's size to read into, by a version that Add will tell,
// making room if it must. It reports false if there is none.
func (t *Tier) Room(nBytes int) (arena.Frame, bool) {
	if nBytes > t.arena.FrameBytesMax() {
		return arena.Frame{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for range evictionsMax {
		f, err := t.arena.Get(nBytes)
		if err == nil {
			return f, true
		}
		if !errors.Is(err, arena.ErrFull) || !t.evictLocked(nBytes) {
			break
		}
	}
	t.counts.Refused++
	return arena.Frame{}, false
}

// evictionsMax bounds the victims for the sake of one frame.
const evictionsMax = 64

// evictLocked lets the next victim go. If that opens no room for a frame of nBytes, its
// neighbours in the same part of the arena follow.
func (t *Tier) evictLocked(nBytes int) bool {
	h, ok := t.policy.Victim()
	if !ok {
		return false
	}
	frame := t.entries[h].frame
	same := (len(frame.Bytes())+arena.AlignBytes-1)/arena.AlignBytes == (nBytes+arena.AlignBytes-1)/arena.AlignBytes
	slab := frame.Slab()
	t.evictedLocked(h)
	if same {
		return true
	}
	for h := range t.entries {
		if f := t.entries[h].frame; f.Valid() && f.Slab() == slab {
			t.evictedLocked(evict.Handle(h))
		}
	}
	return true
}

func (t *Tier) evictedLocked(h evict.Handle) {
	t.policy.Evicted(h)
	t.counts.Evicted++
	t.takeLocked(h)
}

// Origin says why a block comes in.
type Origin uint8

// Origins of blocks.
const (
	Read  Origin = iota // by a client, who has the bytes now
	Ahead               // of its reader
)

// Add keeps the proven bytes of a version, in a frame from Room that holds them. The
// frame is the tier's from then on. owner is what Purge names; reader is who has read
// it, 0 for nobody.
func (t *Tier) Add(v engine.Version, frame arena.Frame, owner, depth uint32, reader uint64, o Origin) {
	var sum uint64
	if t.verify {
		sum = xxh3.Hash(frame.Bytes())
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.byID[v.ID]; ok {
		if t.entries[h].version.Position >= v.Position { // another reader was quicker
			frame.Release()
			return
		}
		t.dropLocked(h)
	}
	h, ok := t.handleLocked()
	if !ok {
		t.counts.Refused++
		frame.Release()
		return
	}
	e := entry{version: v, frame: frame, owner: owner, depth: depth, sum: sum, reader: reader, ahead: o == Ahead}
	if t.mode == Exclusive && o == Read { // two have read it
		e.reader = shared
	}
	t.entries[h] = e
	t.byID[v.ID] = h
	t.counts.Blocks++
	t.counts.Bytes += int64(len(frame.Bytes()))
	t.counts.Added++
	if o == Ahead {
		t.counts.AheadAdded++
	}
	t.policy.Admit(h, evict.Access{ID: v.ID, Depth: depth, Importance: kept, NowNS: now})
}

// shared stands for more readers than one.
const shared = ^uint64(0)

func (t *Tier) handleLocked() (evict.Handle, bool) {
	if n := len(t.free); n > 0 {
		h := t.free[n-1]
		t.free = t.free[:n-1]
		return h, true
	}
	if len(t.entries) >= entriesMax || int64(len(t.entries)) >= t.arena.Usage().TotalBytes/arena.AlignBytes {
		return 0, false
	}
	t.entries = append(t.entries, entry{})
	return evict.Handle(len(t.entries) - 1), true
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

// Keep makes a block that is here stay as if it had been fetched ahead just now, and
// reports whether it is here.
func (t *Tier) Keep(v engine.Version) bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.lookLocked(v)
	if ok {
		e := &t.entries[h]
		t.policy.Touch(h, evict.Access{ID: v.ID, Depth: e.depth, Importance: kept, NowNS: now})
	}
	return ok
}

// Spend lets a block go before others, as nobody is expected to read it soon.
func (t *Tier) Spend(v engine.Version) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.lookLocked(v); ok && t.entries[h].reader != shared {
		t.policy.Touch(h, evict.Access{ID: v.ID, Depth: t.entries[h].depth, Importance: spent, NowNS: now})
	}
}

// Purge gives the memory of all blocks of an owner back at once.
func (t *Tier) Purge(owner uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.entries {
		if e := &t.entries[h]; e.frame.Valid() && e.owner == owner {
			t.dropLocked(evict.Handle(h))
		}
	}
}

func (t *Tier) now() int64 { return time.Since(t.began).Nanoseconds() }
