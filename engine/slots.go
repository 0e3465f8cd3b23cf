package engine

import (
	"math"
	"time"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
)

// Block states in table.Record.State.
const (
	stateWriting = 1 // a put claimed the slot; not readable
	statePresent = 2 // published
)

// slotsLocked is how many slots the namespace has and may still get.
func (ns *Namespace) slotsLocked() int {
	return ns.sums.usable + (ns.coming+ns.growthLocked())*int(ns.slots)
}

// growthLocked is how many segments the namespace may still get without
// taking one from another.
func (ns *Namespace) growthLocked() int {
	s := ns.s
	if s.health != nil || !s.growthStop.IsZero() && time.Now().Before(s.growthStop) {
		return 0
	}
	free := s.layout.segmentBudgetBytes() - s.costBytes - s.keep.indexOverrun
	n := max(free, 0) / segmentCostBytes(ns.slotBytes, ns.slots)
	if ns.quotaBytes > 0 {
		each := segmentFileBytes(ns.slotBytes, ns.slots)
		left := ns.quotaBytes - int64(len(ns.segments))*each
		n = min(n, max(left, 0)/each)
	}
	return min(int(n), s.filesLeftLocked())
}

// filesLeftLocked is how many more segments the limit of open files allows.
func (s *Store) filesLeftLocked() int {
	return max(s.segmentsMax-len(s.segments)-len(s.removals)-s.coming, 0)
}

// blocksMaxLocked is how many blocks the namespace keeps: its slots less those
// held free ahead of need.
func (ns *Namespace) blocksMaxLocked() int {
	slots := ns.slotsLocked()
	return max(slots-reserveSlots(slots), 0)
}

// claimLocked finds a slot for a new block, evicting if the namespace is full,
// and puts the block into table and eviction order as writing. It returns 0
// when no slot can be had at this moment; the caller waits for s.progress or
// gives up.
//
// budget is how many victims may still be looked at in this hold of the lock; if
// it is used up the caller asks again after others had their turn.
func (ns *Namespace) claimLocked(id table.ID, a evict.Access, budget *int) table.Ref {
	s := ns.s
	limit := ns.blocksMaxLocked()
	for ns.sums.blocks >= limit || s.table.Len() == s.table.Max() {
		if !ns.evictOneLocked(budget) {
			if *budget > 0 {
				s.keep.wantSegmentLocked(ns)
			}
			return 0
		}
	}
	ref, err := s.table.Insert(id)
	if err != nil { // a part of it is full, which only chosen keys bring about
		return 0
	}
	g, slot, ok := ns.takeSlotLocked()
	if !ok {
		s.table.Remove(ref)
		s.keep.wantSegmentLocked(ns)
		s.commit.kickFrees()
		return 0
	}
	rec := s.table.At(ref)
	rec.SetPlace(uint64(MakePlace(g.header.number, slot)))
	rec.SetNamespace(ns.number)
	rec.Depth = a.Depth
	rec.SetState(stateWriting)
	rec.Importance = a.Importance
	g.owner[slot] = ref
	g.lastUse = s.useLocked()
	ns.policy.Admit(evict.Handle(ref), a)
	g.addBlocks(1)
	g.writing++
	return ref
}

// takeSlotLocked takes a free slot from the open segment, or opens the
// emptiest one.
func (ns *Namespace) takeSlotLocked() (*segment, uint32, bool) {
	g := ns.open
	if g == nil || g.leaving || g.free == 0 || g.cursor >= g.header.slots {
		g = nil
		for _, c := range ns.segments {
			if !c.leaving && c.free > 0 && (g == nil || c.free > g.free) {
				g = c
			}
		}
		if g == nil {
			return nil, 0, false
		}
		ns.open = g
		g.cursor = 0
	}
	slot, ok := g.take()
	if ok && ns.freeSlotsLocked() < int(ns.slots)/2 && ns.growthLocked() > 0 {
		ns.s.keep.wantSegmentLocked(ns)
	}
	return g, slot, ok
}

// shortLocked: fewer slots are free than are held free ahead of need.
func (ns *Namespace) shortLocked() bool { return ns.freeSlotsLocked() < reserveSlots(int(ns.slots)) }

func (ns *Namespace) freeSlotsLocked() int { return ns.sums.free }

// evictOneLocked evicts the policy's next victim. What cannot go now, because it
// is under a lease or being written, is parked behind everything else until it can;
// in a leaving segment nothing holds it. False: the budget is used up, or nothing
// can be evicted now.
func (ns *Namespace) evictOneLocked(budget *int) bool {
	s := ns.s
	for *budget > 0 {
		h, ok := ns.policy.Victim()
		if !ok || ns.passed > ns.sums.leased+s.transfersMax { // all that can be parked is
			ns.passed = 0
			return false
		}
		*budget--
		ref := table.Ref(h)
		rec := s.table.At(ref)
		held := rec.State() == stateWriting || rec.Leases > 0
		if held && !s.segments[Place(rec.Place()).Segment()].leaving {
			rec.SetParked(true)
			a := ns.accessLocked(rec)
			a.Importance, a.Moved = math.MaxUint8, true
			ns.policy.Touch(h, a)
			ns.passed++
			continue
		}
		ns.passed = 0
		ns.evictLocked(ref)
		return true
	}
	return false
}

// evictLocked takes a block out for want of room, or, in a drop, for good.
func (ns *Namespace) evictLocked(ref table.Ref) {
	if ns.dropping || ns.s.table.At(ref).State() != statePresent {
		ns.policy.Forget(evict.Handle(ref))
	} else {
		ns.policy.Evicted(evict.Handle(ref), idBytes(ns.s.table.At(ref).ID))
		ns.s.counters.Evicted++
	}
	ns.dropBlockLocked(ref)
}

// unparkLocked gives a block its place in the eviction order back: as the youngest
// of its importance.
func (ns *Namespace) unparkLocked(ref table.Ref, rec *table.Record) {
	if rec.Parked() {
		rec.SetParked(false)
		a := ns.accessLocked(rec)
		a.Moved = true
		ns.policy.Touch(evict.Handle(ref), a)
	}
}

// dropBlockLocked takes a block that the policy no longer holds out of the
// table; its slot waits for a durable free record (or, if the block was still
// writing and has no record, is free at once).
func (ns *Namespace) dropBlockLocked(ref table.Ref) {
	s := ns.s
	rec := s.table.At(ref)
	place, position := Place(rec.Place()), rec.Position()
	g := s.segments[place.Segment()]
	g.addBlocks(-1)
	if rec.Leases > 0 {
		g.addLeased(-1)
	}
	if rec.State() == stateWriting {
		g.writing--
	}
	pins := rec.Pins
	if planted.Active(planted.SkipPin) {
		pins = 0
	}
	if pins > 0 {
		s.zombiePins[place] += int(pins)
	}
	if position != 0 {
		g.owner[place.Slot()] = slotFreeing
		if !ns.dropping { // else the record of the drop says it for all
			ns.freeing = append(ns.freeing, freeItem{id: rec.ID, position: position})
			ns.freeingPlaces = append(ns.freeingPlaces, place)
		}
	}
	s.table.Remove(ref)
	if position == 0 { // never had a record
		g.release(place.Slot())
	} else if planted.Active(planted.FreeBeforeRecord) {
		s.openSlotLocked(place)
	}
	if n := len(ns.freeing); n > 0 && n%freeItemsMax == 0 { // not each time while the log refuses
		ns.appendFreesLocked()
	}
}

// unpinLocked ends one read of a slot. ref, place and position are those
// captured when the read was pinned.
func (s *Store) unpinLocked(ref table.Ref, place Place, position uint64) {
	if rec := s.table.Peek(ref); rec != nil && rec.State() == statePresent && rec.Position() == position && Place(rec.Place()) == place {
		rec.Pins--
		return
	}
	if s.zombiePins[place]--; s.zombiePins[place] > 0 {
		return
	}
	delete(s.zombiePins, place)
	if g := s.segments[place.Segment()]; g != nil && g.owner[place.Slot()] == slotDraining {
		g.release(place.Slot())
		s.wakeLocked()
	}
}
