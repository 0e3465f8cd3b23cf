package engine

import "fmt"

// CheckSlots compares every count the store keeps with what it counts: each
// slot is free, holds one block, or waits for one of the named reasons.
func (s *Store) CheckSlots() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	blocks := map[*Namespace]int{}
	for number, g := range s.segments {
		ns := s.namespaces[g.header.namespace-1]
		free, quarantined := 0, 0
		for slot, owner := range g.owner {
			switch {
			case owner == slotFree:
				free++
			case owner == slotQuarantined:
				quarantined++
			case isBlock(owner):
				blocks[ns]++
				rec := s.table.Peek(owner)
				if rec == nil || Place(rec.Place) != MakePlace(number, uint32(slot)) || rec.Namespace != ns.number {
					return fmt.Errorf("%v is owned by record %d, which is elsewhere", MakePlace(number, uint32(slot)), owner)
				}
			}
		}
		if free != g.free || quarantined != g.quarantined {
			return fmt.Errorf("segment %d says %d free and %d quarantined, counted %d and %d", number, g.free, g.quarantined, free, quarantined)
		}
	}
	total := 0
	for _, ns := range s.namespaces {
		var sums slotSums
		for _, g := range ns.segments {
			sums.usable += g.usable()
			sums.free += g.free
		}
		if sums != ns.sums {
			return fmt.Errorf("namespace %q says %+v, counted %+v", ns.descriptor.Name, ns.sums, sums)
		}
		if blocks[ns] != ns.blocks || ns.policy.Len() != ns.blocks {
			return fmt.Errorf("namespace %q says %d blocks, counted %d, %d in the eviction order",
				ns.descriptor.Name, ns.blocks, blocks[ns], ns.policy.Len())
		}
		total += ns.blocks
	}
	if total != s.table.Len() {
		return fmt.Errorf("the table has %d blocks, the segments %d", s.table.Len(), total)
	}
	return s.checkPinsLocked()
}

// checkPinsLocked finds pins, leases and transfers that nobody holds any more.
// It is for a store without calls in flight.
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
