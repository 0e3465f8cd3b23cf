package engine

// appendFreesLocked writes collected frees into the log: one record, and whether
// more are left. When the log refuses, they stay collected for the next try.
func (ns *Namespace) appendFreesLocked() (more bool) {
	s := ns.s
	n := min(len(ns.freeing), freeItemsMax)
	if n == 0 {
		return false
	}
	payload := appendFree(nil, recordFree, ns.number, ns.incarnation, ns.freeing[:n])
	position, err := s.appendLocked(payload, false)
	if err != nil {
		return false
	}
	s.freeQueue = append(s.freeQueue, freeBatch{position, append([]Place(nil), ns.freeingPlaces[:n]...)})
	if more = n < len(ns.freeing); more {
		ns.freeing, ns.freeingPlaces = ns.freeing[n:], ns.freeingPlaces[n:]
	} else {
		ns.freeing, ns.freeingPlaces = ns.freeing[:0], ns.freeingPlaces[:0]
	}
	return more
}

// settleFreesLocked opens the slots whose free record is durable: those of one
// record, and whether more may be.
func (s *Store) settleFreesLocked() (more bool) {
	if len(s.freeQueue) == 0 || s.freeQueue[0].position > s.logSynced {
		return false
	}
	for _, p := range s.freeQueue[0].places {
		s.openSlotLocked(p)
	}
	s.freeQueue[0].places = nil
	s.freeQueue = s.freeQueue[1:]
	return true
}

// settleAllFreesLocked opens all slots whose free record is durable.
func (s *Store) settleAllFreesLocked() {
	for s.settleFreesLocked() {
		s.turnLocked()
	}
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
