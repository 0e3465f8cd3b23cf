package engine

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// keeper creates segments ahead of need, takes them from one namespace for
// another, and unlinks those that went.
type keeper struct {
	// config serialises changes of the store file. Taken before Store.mu.
	config sync.Mutex

	wake chan struct{}
	stop chan struct{}
	done sync.WaitGroup      // the keeper and the watcher
	want map[*Namespace]bool // guarded by Store.mu

	// unlinking holds a token while somebody unlinks. It is no mutex, so that
	// virtual time goes on while others wait.
	unlinking chan struct{}

	ballast       bool // the ballast file exists; the keeper's own, after Open
	ballastSought bool
	zeros         []byte // what segments are pre-written with; made at the first use

	indexOverrun int64 // guarded by Store.mu: index bytes beyond the reserve
}

const (
	keeperInterval = time.Second
	// growthPause is how long the store stops growing after a full file system.
	growthPause = 5 * time.Second
)

func (k *keeper) start(s *Store) {
	k.wake = make(chan struct{}, 1)
	k.stop = make(chan struct{})
	k.done.Go(func() { k.run(s) })
	k.done.Go(func() { s.watch(k.stop) })
}

// wantSegmentLocked asks for one more segment for ns.
func (k *keeper) wantSegmentLocked(ns *Namespace) {
	if k.want[ns] {
		return
	}
	k.want[ns] = true
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) run(s *Store) {
	tick := time.NewTicker(keeperInterval)
	defer tick.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-tick.C:
			s.checkIndexSize()
			s.trimToQuotas()
			s.saveAgesNowAndThen(time.Now())
			if s.keepBallast() {
				s.yieldSegment()
			}
		case <-k.wake:
			s.provision()
		}
		if err := s.unlinkRemovals(); err != nil {
			s.log.Warn("a segment that is no longer used could not be unlinked", "cause", err)
		}
	}
}

// provision serves the namespaces that asked for a segment.
func (s *Store) provision() {
	for {
		s.mu.Lock()
		var ns *Namespace
		for n := range s.keep.want {
			if ns == nil || n.number < ns.number {
				ns = n
			}
		}
		if ns == nil {
			s.mu.Unlock()
			return
		}
		delete(s.keep.want, ns)
		s.mu.Unlock()
		if err := s.addSegment(ns); err != nil {
			s.log.Warn("no new segment", "namespace", ns.descriptor.Name, "cause", err)
		}
	}
}

// addSegment creates one segment for ns if the budget allows it, or takes the
// room of another namespace's coldest segment.
func (s *Store) addSegment(ns *Namespace) error {
	if made, err := s.makeRoom(ns); !made {
		return err
	}
	s.mu.Lock()
	if ns.growthLocked() == 0 {
		s.mu.Unlock()
		return nil
	}
	h := segmentHeader{storeID: s.id, nsID: ns.nsID, number: s.nextNumber, namespace: ns.number,
		incarnation: ns.incarnation, slots: ns.slots, slotBytes: ns.slotBytes,
		blockBytes: uint32(ns.descriptor.BlockBytes), dirBytes: uint32(directoryBytes(ns.slots)),
		createdAfter: uint64(s.wal.Last())}
	s.nextNumber++
	cost := segmentCostBytes(h.slotBytes, h.slots)
	s.costBytes += cost
	ns.coming++
	s.coming++
	s.mu.Unlock()

	f, err := createSegmentFile(s.dev, h)
	if err == nil {
		s.prewrite(ns, f, &h)
	}

	s.mu.Lock()
	defer s.wakeUnlock()
	ns.coming--
	s.coming--
	if err != nil {
		s.costBytes -= cost
		s.growthStop, s.growthError = time.Now().Add(growthPause), err
		return fmt.Errorf("%w (the store goes on with the segments it has)", err)
	}
	g := newSegment(h, f)
	if ns.incarnation != h.incarnation || s.closing { // dropped meanwhile
		g.leaving = true
		s.removals = append(s.removals, g)
		return nil
	}
	g.lastUse = s.useLocked()
	s.segments[h.number] = g
	ns.join(g)
	return nil
}

// makeRoom reports whether ns should get a segment now, after having taken
// one from another namespace where the budget is used up.
func (s *Store) makeRoom(ns *Namespace) (bool, error) {
	s.mu.Lock()
	idle := ns.dropping || s.health != nil || s.closing
	enough := ns.freeSlotsLocked() >= int(ns.slots)/2 && len(ns.segments) > 0
	if idle || enough || ns.growthLocked() > 0 {
		s.mu.Unlock()
		return !idle && !enough, nil
	}
	victim := s.segmentToTakeLocked(ns)
	if victim == nil {
		s.mu.Unlock()
		return false, nil
	}
	s.giveUpLocked(victim)
	s.mu.Unlock()
	err := s.unlinkRemovals()
	return err == nil, err
}

// segmentToTakeLocked chooses the segment that another namespace gives up for
// ns: the coldest one, if everything in it is older than the oldest block of
// ns, or if ns has no segment at all.
func (s *Store) segmentToTakeLocked(ns *Namespace) *segment {
	if ns.quotaBytes > 0 && int64(len(ns.segments)+1)*segmentFileBytes(ns.slotBytes, ns.slots) > ns.quotaBytes {
		return nil
	}
	var candidates []*segment
	for _, other := range s.namespaces {
		if other != ns && len(other.segments) > 0 {
			candidates = append(candidates, other.segments...)
		}
	}
	g := coldest(slices.Values(candidates))
	if g == nil {
		return nil
	}
	if own := coldest(slices.Values(ns.segments)); own != nil && g.lastUse >= own.lastUse {
		return nil
	}
	if g.leased > 0 || g.writing > 0 {
		return nil
	}
	return g
}

// coldest is the segment whose newest use is the oldest, nil if all are leaving.
func coldest(segments iter.Seq[*segment]) (g *segment) {
	for c := range segments {
		if !c.leaving && (g == nil || c.lastUse < g.lastUse) {
			g = c
		}
	}
	return g
}

// coldestToSpareLocked is the coldest segment of the store, nil if there is no other.
func (s *Store) coldestToSpareLocked() *segment {
	stay := 0
	for _, g := range s.segments {
		if !g.leaving {
			stay++
		}
	}
	if stay < 2 {
		return nil
	}
	return coldest(maps.Values(s.segments))
}

// checkIndexSize measures the index and gives up the coldest segment when the
// index has outgrown what is reserved for it.
func (s *Store) checkIndexSize() {
	used := s.index.diskBytes()
	s.mu.Lock()
	defer s.mu.Unlock()
	reserve := s.layout.indexFixedBytes()
	for _, g := range s.segments {
		reserve += int64(g.header.slots) * indexBytesPerSlot
	}
	s.keep.indexOverrun = max(used-reserve, 0)
	if s.health == nil && s.costBytes+s.keep.indexOverrun > s.layout.segmentBudgetBytes() {
		if g := s.coldestToSpareLocked(); g != nil {
			s.log.Info("the index outgrew its reserve; the coldest segment goes", "index_bytes", used, "segment", g.header.number)
			s.giveUpLocked(g)
		}
	}
}
