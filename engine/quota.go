package engine

import "slices"

// trimToQuotaLocked gives up the coldest whole segments of a namespace above
// its quota. A segment with a block under lease stays until a later call, since
// a lease outranks a quota. The caller unlinks what went.
func (ns *Namespace) trimToQuotaLocked() {
	s := ns.s
	s.leases.expireLocked(s)
	each := segmentFileBytes(ns.slotBytes, ns.slots)
	for ns.quotaBytes > 0 && int64(len(ns.segments))*each > ns.quotaBytes {
		var free []*segment
		for _, g := range ns.segments {
			if !s.segmentLeasedLocked(g) {
				free = append(free, g)
			}
		}
		g := coldest(slices.Values(free))
		if g == nil {
			return
		}
		s.emptySegmentLocked(g)
	}
}

func (s *Store) segmentLeasedLocked(g *segment) bool {
	for _, ref := range g.owner {
		if isBlock(ref) && s.table.At(ref).Leases > 0 {
			return true
		}
	}
	return false
}
