package sim

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// undoMaxBytes bounds what is uncertain in one file: like a drive's cache, the
// oldest unsynced writes become durable when newer ones need the room.
const undoMaxBytes = 64 << 20

// undo remembers what a write or punch has overwritten.
type undo struct {
	landed uint64 // its number among the file's landed writes
	offset int64
	length int64
	before []byte // nil: zeros
}

// remember records the bytes that a write is about to overwrite.
func (ino *inode) remember(offset, n int64) {
	ino.landed++
	u := undo{landed: ino.landed, offset: offset, length: n}
	for no := offset / pageBytes; no*pageBytes < offset+n; no++ {
		if ino.pages[no] != nil {
			u.before = make([]byte, n)
			ino.readAt(u.before, offset)
			break
		}
	}
	ino.undo = append(ino.undo, u)
	ino.undoBytes += n
	for ino.undoBytes > undoMaxBytes && len(ino.undo) > 1 {
		ino.dropUndo(1)
	}
}

// dropUndo makes the oldest count unsynced writes durable.
func (ino *inode) dropUndo(count int) {
	for _, u := range ino.undo[:count] {
		ino.undoBytes -= u.length
	}
	clear(ino.undo[:count])
	ino.undo = ino.undo[count:]
	if len(ino.undo) == 0 {
		ino.undo = nil
	}
}

// covered is how many undo records belong to writes up to number landed.
func (ino *inode) covered(landed uint64) int {
	n, _ := slices.BinarySearchFunc(ino.undo, landed+1, func(u undo, l uint64) int {
		switch {
		case u.landed < l:
			return -1
		case u.landed > l:
			return 1
		}
		return 0
	})
	return n
}

// synced makes the writes up to number landed durable, and size and attributes.
func (ino *inode) synced(landed uint64) {
	ino.dropUndo(ino.covered(landed))
	ino.settle()
}

// settle makes size and attributes durable.
func (ino *inode) settle() {
	ino.stableSize = ino.size
	ino.stableAttrs = maps.Clone(ino.attrs)
}

// revert lets the oldest count unsynced writes meet their fate: of each sector,
// the newest write that is kept decides. Later writes stand. The records stay.
func (ino *inode) revert(c *cut, count, sectorBytes int) {
	decided := map[int64]bool{} // sector number: a kept write holds it
	for i := len(ino.undo) - 1; i >= 0; i-- {
		u := ino.undo[i]
		first, last := u.offset/int64(sectorBytes), (u.offset+u.length-1)/int64(sectorBytes)
		keep := func(int) bool { return true }
		if i < count {
			keep = c.sectors(int(last - first + 1))
		}
		for sector := first; sector <= last; sector++ {
			if decided[sector] {
				continue
			}
			if keep(int(sector - first)) {
				decided[sector] = true
				continue
			}
			start := max(u.offset, sector*int64(sectorBytes))
			end := min(u.offset+u.length, (sector+1)*int64(sectorBytes), ino.size)
			ino.restore(u, start, end)
		}
	}
}

// restore puts back what u had overwritten from start to end.
func (ino *inode) restore(u undo, start, end int64) {
	switch {
	case start >= end:
	case u.before == nil:
		ino.writeAt(zeroPage[:end-start], start) // a sector is at most a page
	default:
		ino.writeAt(u.before[start-u.offset:end-u.offset], start)
	}
}

// powerCut takes from the file what c says, and makes the rest durable.
func (ino *inode) powerCut(c *cut, sectorBytes int) {
	ino.revert(c, len(ino.undo), sectorBytes)
	ino.dropUndo(len(ino.undo))
	if ino.size > ino.stableSize && c.loses() {
		ino.truncate(ino.stableSize)
	}
	names := maps.Clone(ino.attrs)
	if names == nil {
		names = map[string][]byte{}
	}
	maps.Copy(names, ino.stableAttrs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, had := ino.stableAttrs[name]
		now, has := ino.attrs[name]
		if had == has && bytes.Equal(before, now) || !c.loses() {
			continue
		}
		if delete(ino.attrs, name); had {
			ino.attrs[name] = before
		}
	}
	ino.settle()
}

// cut draws the fates of unsynced changes.
type cut struct {
	rng  *rand.Rand
	mood int // 0: everything is lost; 1: everything is kept; else each by itself
}

func newCut(rng *rand.Rand) *cut { return &cut{rng: rng, mood: rng.IntN(8)} }

// loses decides one change that is lost or kept whole.
func (c *cut) loses() bool {
	if c.mood <= 1 {
		return c.mood == 0
	}
	return c.rng.IntN(2) == 0
}

// sectors decides a write of count sectors and tells which are kept: all of
// them, none, or a mix.
func (c *cut) sectors(count int) func(sector int) bool {
	switch {
	case c.mood > 1 && count > 1 && c.rng.IntN(2) == 0:
		return tear(c.rng, count)
	case c.loses():
		return func(int) bool { return false }
	}
	return func(int) bool { return true }
}

// tear says which of count sectors land, at least one and never all: the first
// few, all but the first few, or any.
func tear(rng *rand.Rand, count int) func(sector int) bool {
	at := 1 + rng.IntN(count-1)
	switch rng.IntN(4) {
	case 0:
		return func(sector int) bool { return sector < at }
	case 1:
		return func(sector int) bool { return sector >= at }
	}
	lands := make([]bool, count)
	for i := range lands {
		lands[i] = rng.IntN(2) == 0
	}
	lands[at], lands[rng.IntN(at)] = true, false
	return func(sector int) bool { return lands[sector] }
}
