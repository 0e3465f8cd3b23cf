package engine

// trimToQuotas is trimToQuota of all namespaces.
func (s *Store) trimToQuotas() {
	s.mu.Lock()
	namespaces := s.namespaces // only ever grows
	s.mu.Unlock()
	for _, ns := range namespaces {
		ns.trimToQuota()
	}
}

// trimToQuota gives up the coldest whole segments of a namespace above its quota.
// A segment with a block under lease stays until a later call, since a lease
// outranks a quota. When it returns, no segment of the namespace is leaving; the
// caller unlinks what went.
func (ns *Namespace) trimToQuota() {
	s := ns.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLeasesLocked()
	for g := ns.overQuotaLocked(); g != nil; g = ns.overQuotaLocked() {
		s.giveUpLocked(g)
	}
	ns.awaitLeavingLocked()
}

// overQuotaLocked is the next segment to go for the quota, nil if none.
func (ns *Namespace) overQuotaLocked() *segment {
	each := segmentFileBytes(ns.slotBytes, ns.slots)
	if ns.quotaBytes == 0 || int64(len(ns.segments))*each <= ns.quotaBytes {
		return nil
	}
	return coldest(func(yield func(*segment) bool) {
		for _, g := range ns.segments {
			if g.leased == 0 && !yield(g) {
				return
			}
		}
	})
}
