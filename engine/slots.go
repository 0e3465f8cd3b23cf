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
func (ns *Namespace) claimLocked(id table.ID, a evict.Access) table.Ref {
	s := ns.s
	limit := ns.blocksMaxLocked()
	for ns.blocks >= limit || s.table.Len() == s.table.Max() {
		if !ns.evictOneLocked() {
			s.keep.wantSegmentLocked(ns)
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
	rec.Place = uint64(MakePlace(g.header.number, slot))
	rec.Namespace = ns.number
	rec.Depth = a.Depth
	rec.State = stateWriting
	rec.Importance = a.Importance
	g.owner[slot] = ref
	g.lastUse = s.useLocked()
	ns.policy.Admit(evict.Handle(ref), a)
	ns.blocks++
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
// is under a lease or being written, is parked behind everything else until it can.
// False: nothing can be evicted now.
func (ns *Namespace) evictOneLocked() bool {
	s := ns.s
	s.leases.expireLocked(s)
	for tries := ns.leased + s.transfersMax; tries >= 0; tries-- {
		h, ok := ns.policy.Victim()
		if !ok {
			return false
		}
		ref := table.Ref(h)
		rec := s.table.At(ref)
		if rec.State == stateWriting || rec.Leases > 0 {
			rec.Parked = true
			a := ns.accessLocked(rec)
			a.Importance = math.MaxUint8
			ns.policy.Touch(h, a)
			continue
		}
		ns.policy.Evicted(h)
		ns.dropBlockLocked(ref)
		s.counters.Evicted++
		return true
	}
	return false
}

// unparkLocked gives a block its place in the eviction order back: as the youngest
// of its importance.
func (ns *Namespace) unparkLocked(ref table.Ref, rec *table.Record) {
	if rec.Parked {
		rec.Parked = false
		ns.policy.Touch(evict.Handle(ref), ns.accessLocked(rec))
	}
}

// accessLocked describes a block to the policy.
func (ns *Namespace) accessLocked(rec *table.Record) evict.Access {
	return evict.Access{ID: idBytes(rec.ID), Depth: rec.Depth, Importance: rec.Importance,
		NowNS: time.Since(ns.s.started).Nanoseconds()}
}

// dropBlockLocked takes a block that the policy no longer holds out of the
// table; its slot waits for a durable free record (or, if the block was still
// writing and has no record, is free at once).
func (ns *Namespace) dropBlockLocked(ref table.Ref) {
	s := ns.s
	rec := s.table.At(ref)
	place, position := Place(rec.Place), rec.Position
	g := s.segments[place.Segment()]
	ns.blocks--
	if rec.Leases > 0 {
		ns.leased--
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
		ns.freeing = append(ns.freeing, freeItem{id: rec.ID, position: position})
		ns.freeingPlaces = append(ns.freeingPlaces, place)
	}
	s.table.Remove(ref)
	if position == 0 { // never had a record
		g.release(place.Slot())
	} else if planted.Active(planted.FreeBeforeRecord) {
		s.openSlotLocked(place)
	}
	if len(ns.freeing) >= freeItemsMax {
		ns.appendFreesLocked()
	}
}

// appendFreesLocked writes the collected frees into the log. When the log
// refuses, they stay collected for the next try.
func (ns *Namespace) appendFreesLocked() error {
	s := ns.s
	for len(ns.freeing) > 0 {
		n := min(len(ns.freeing), freeItemsMax)
		payload := appendFree(nil, recordFree, ns.number, ns.incarnation, ns.freeing[:n])
		position, err := s.appendLocked(payload, false)
		if err != nil {
			return err
		}
		s.freeQueue = append(s.freeQueue, freeBatch{position, append([]Place(nil), ns.freeingPlaces[:n]...)})
		ns.freeing = append(ns.freeing[:0], ns.freeing[n:]...)
		ns.freeingPlaces = append(ns.freeingPlaces[:0], ns.freeingPlaces[n:]...)
	}
	return nil
}

// settleFreesLocked opens the slots whose free record is durable.
func (s *Store) settleFreesLocked() {
	done := 0
	for _, b := range s.freeQueue {
		if b.position > s.logSynced {
			break
		}
		for _, p := range b.places {
			s.openSlotLocked(p)
		}
		done++
	}
	s.freeQueue = append(s.freeQueue[:0], s.freeQueue[done:]...)
}

// openSlotLocked frees a slot whose free record is durable, or leaves that to
// its last reader.
func (s *Store) openSlotLocked(p Place) {
	g := s.segments[p.Segment()]
	if g == nil || g.owner[p.Slot()] != slotFreeing {
		return // the segment went, or the slot was quarantined meanwhile
	}
	if s.zombiePins[p] > 0 {
		g.owner[p.Slot()] = slotDraining
		return
	}
	g.release(p.Slot())
}

// unpinLocked ends one read of a slot. ref, place and position are those
// captured when the read was pinned.
func (s *Store) unpinLocked(ref table.Ref, place Place, position uint64) {
	if rec := s.table.Peek(ref); rec != nil && rec.State == statePresent && rec.Position == position && Place(rec.Place) == place {
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
