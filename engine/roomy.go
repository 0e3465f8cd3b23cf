package engine

import (
	"math/bits"

	"github.com/spillway-kv/spillway/engine/table"
)

// roomyGroups tells where in a segment to look for a free slot: one bit for each
// group of 64 slots, set while one of them may be free. 64 bits are looked at
// together, so a search passes over 4,096 slots in use at a time.
type roomyGroups []uint64

const groupSlots = 64

// newRoomyGroups is that of a segment whose slots are all free.
func newRoomyGroups(slots uint32) roomyGroups {
	groups := (slots + groupSlots - 1) / groupSlots
	r := make(roomyGroups, (groups+63)/64)
	for group := range groups {
		r[group/64] |= 1 << (group % 64)
	}
	return r
}

// add notes a slot that has become free. One that is taken needs no note.
func (r roomyGroups) add(slot uint32) {
	group := slot / groupSlots
	r[group/64] |= 1 << (group % 64)
}

// next finds the first free slot at or behind from. Groups that it finds without
// one are not looked at again.
func (r roomyGroups) next(owner []table.Ref, from uint32) (slot uint32, ok bool) {
	for group, ok := r.nextGroup(from / groupSlots); ok; group, ok = r.nextGroup(group + 1) {
		first := group * groupSlots
		for slot := max(first, from); slot < min(first+groupSlots, uint32(len(owner))); slot++ {
			if owner[slot] == slotFree {
				return slot, true
			}
		}
		if first >= from {
			r[group/64] &^= 1 << (group % 64)
		}
	}
	return 0, false
}

// nextGroup is the first group at or behind from whose bit is set.
func (r roomyGroups) nextGroup(from uint32) (group uint32, ok bool) {
	if int(from/64) >= len(r) {
		return 0, false
	}
	word := r[from/64] >> (from % 64) << (from % 64)
	for i := from / 64; ; word = r[i] {
		if word != 0 {
			return i*64 + uint32(bits.TrailingZeros64(word)), true
		}
		if i++; int(i) == len(r) {
			return 0, false
		}
	}
}
