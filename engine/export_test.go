package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/engine/table"
)

// OnTurn has f called, without the lock, wherever long work lets others have their
// turn, but not while it runs; nil ends that.
func (s *Store) OnTurn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var running sync.Mutex
	s.turns.taken = func() {
		if f != nil && running.TryLock() {
			s.mu.Unlock()
			f()
			running.Unlock()
			s.mu.Lock()
		}
	}
}

// Tally is what long work of a namespace changes.
type Tally struct {
	Blocks, Leased, Free, Slots int
	Err                         error // of CheckCounts
}

// OnPiece has f called now, and at the end of each piece of long work, under the lock.
func (ns *Namespace) OnPiece(f func(Tally)) {
	ns.s.mu.Lock()
	defer ns.s.mu.Unlock()
	ns.s.turns.taken = func() { f(ns.tallyLocked()) }
	ns.s.turns.taken()
}

func (ns *Namespace) tallyLocked() Tally {
	t := Tally{Blocks: ns.policy.Len(), Err: ns.s.checkCountsLocked()}
	for _, g := range ns.s.segments {
		if g.header.namespace == ns.number {
			t.Leased += g.leased
			t.Free += g.free
			t.Slots += int(g.header.slots)
		}
	}
	return t
}

// SetHoldMax makes the pieces of long work as small as n, but for those of the log's records.
func (s *Store) SetHoldMax(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns.holdMax = n
}

// HoldMax is what one hold of the lock walks over at most.
const HoldMax = holdMax

// CheckSlots compares every count the store keeps with what it counts: each
// slot is free, holds one block, or waits for one of the named reasons. It is for a
// store without calls in flight.
func (s *Store) CheckSlots() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.checkCountsLocked(), s.checkPinsLocked())
}

// CheckCounts is the part of CheckSlots that holds at any time.
func (s *Store) CheckCounts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkCountsLocked()
}

func (s *Store) checkCountsLocked() error {
	blocks := map[*Namespace]int{}
	for _, g := range s.segments {
		ns := s.namespaces[g.header.namespace-1]
		if err := s.checkSegmentLocked(ns, g); err != nil {
			return err
		}
		blocks[ns] += g.blocks
		if slices.Contains(ns.segments, g) == g.leaving || slices.Contains(ns.leaving, g) != g.leaving ||
			(g.sums == nil) != g.leaving || g.leaving && ns.open == g {
			return fmt.Errorf("segment %d, leaving %v, is in the wrong list", g.header.number, g.leaving)
		}
	}
	total := 0
	for _, ns := range s.namespaces {
		var sums slotSums
		for _, g := range ns.segments {
			sums.usable += g.usable()
			sums.free += g.free
			sums.blocks += g.blocks
			sums.leased += g.leased
		}
		if sums != ns.sums {
			return fmt.Errorf("namespace %q says %+v, counted %+v", ns.descriptor.Name, ns.sums, sums)
		}
		if ns.policy.Len() != blocks[ns] {
			return fmt.Errorf("namespace %q has %d blocks, %d in the eviction order", ns.descriptor.Name, blocks[ns], ns.policy.Len())
		}
		total += blocks[ns]
	}
	if total != s.table.Len() {
		return fmt.Errorf("the table has %d blocks, the segments %d", s.table.Len(), total)
	}
	return s.checkPromisesLocked()
}

// checkSegmentLocked compares the counts of one segment with its slots.
func (s *Store) checkSegmentLocked(ns *Namespace, g *segment) error {
	var counted segment
	for slot, owner := range g.owner {
		p := MakePlace(g.header.number, uint32(slot))
		switch {
		case owner == slotFree:
			counted.free++
			if group := slot / groupSlots; g.roomy[group/64]>>(group%64)&1 == 0 {
				return fmt.Errorf("%v is free, and its group is said to have no room", p)
			}
		case owner == slotQuarantined:
			counted.quarantined++
		case isBlock(owner):
			rec := s.table.Peek(owner)
			if rec == nil || Place(rec.Place()) != p || rec.Namespace() != ns.number {
				return fmt.Errorf("%v is owned by record %d, which is elsewhere", p, owner)
			}
			if uint32(slot) < g.emptied {
				return fmt.Errorf("%v was emptied and holds a block", p)
			}
			counted.blocks++
			if rec.State() == stateWriting {
				counted.writing++
			}
			if rec.Leases > 0 {
				counted.leased++
			}
		}
	}
	if counted.free != g.free || counted.quarantined != g.quarantined || counted.blocks != g.blocks ||
		counted.writing != g.writing || counted.leased != g.leased {
		return fmt.Errorf("segment %d says %d free, %d quarantined, %d blocks, %d writing, %d leased; counted %d, %d, %d, %d, %d",
			g.header.number, g.free, g.quarantined, g.blocks, g.writing, g.leased,
			counted.free, counted.quarantined, counted.blocks, counted.writing, counted.leased)
	}
	return nil
}

// checkPromisesLocked compares the leases of each block with the promises of all
// leases, those that are over and not let go included.
func (s *Store) checkPromisesLocked() error {
	promises, held := map[table.Ref]int{}, 0
	count := func(l *lease) {
		held += len(l.blocks)
		for _, lb := range l.blocks[l.letGo:] {
			if rec := s.table.Peek(lb.ref); rec != nil && rec.Position() == lb.position {
				promises[lb.ref]++
			}
		}
	}
	for _, l := range s.leases.byID {
		count(l)
	}
	for _, l := range s.leases.over {
		count(l)
	}
	if held != s.leases.held || len(s.leases.byID) != len(s.leases.expiry) {
		return fmt.Errorf("%d promises, counted %d; %d leases, %d in the heap", s.leases.held, held, len(s.leases.byID), len(s.leases.expiry))
	}
	var err error
	s.table.Each(func(ref table.Ref, rec *table.Record) bool {
		if int(rec.Leases) != promises[ref] {
			err = fmt.Errorf("record %d has %d leases, counted %d", ref, rec.Leases, promises[ref])
		}
		return err == nil
	})
	return err
}

// checkPinsLocked finds pins, leases and transfers that nobody holds any more.
func (s *Store) checkPinsLocked() error {
	if s.transfers != 0 || s.waiting != 0 || len(s.zombiePins) != 0 || len(s.inflight) != 0 {
		return fmt.Errorf("at rest: %d transfers, %d waiting, zombie pins %v, %d joinable reads",
			s.transfers, s.waiting, s.zombiePins, len(s.inflight))
	}
	for _, g := range s.segments {
		for _, owner := range g.owner {
			if isBlock(owner) && s.table.At(owner).Pins != 0 {
				return fmt.Errorf("at rest: record %d has %d pins", owner, s.table.At(owner).Pins)
			}
		}
	}
	return nil
}

// FreeAndUsed counts slots: free ones, ones with a block, ones that wait for
// the log or are quarantined, and all.
func (s *Store) FreeAndUsed() (free, used, other, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		for _, owner := range g.owner {
			switch {
			case owner == slotFree:
				free++
			case isBlock(owner):
				used++
			default:
				other++
			}
		}
		total += len(g.owner)
	}
	return free, used, other, total
}

// SetPins makes as if so many reads of every present block were in flight.
func (s *Store) SetPins(pins uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Each(func(_ table.Ref, rec *table.Record) bool {
		rec.Pins = pins
		return true
	})
}
