package memory

import (
	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/arena"
)

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
