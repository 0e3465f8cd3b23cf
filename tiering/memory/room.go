package memory

import (
	"errors"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/arena"
)

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
	t.policy.Evicted(h, t.entries[h].version.ID)
	t.counts.Evicted++
	t.takeLocked(h)
}
