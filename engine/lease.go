package engine

import (
	"container/heap"
	"time"

	"github.com/spillway-kv/spillway/engine/table"
)

// leaseBook keeps the timed promises of a store, ordered by expiry. It is
// guarded by Store.mu.
type leaseBook struct {
	byID   map[LeaseID]*lease
	expiry leaseHeap
	over   []*lease // ended, with blocks still to let go; in none of the above
	lastID LeaseID
	held   int // promises of all leases together: one for each block of each
}

// lease holds some blocks of one namespace.
type lease struct {
	id      LeaseID
	ns      *Namespace
	expires time.Time
	blocks  []leasedBlock
	letGo   int // how many of blocks were let go
	at      int // index in the heap
}

// leasedBlock remembers a block by its number and by the put it came from,
// since numbers are reused.
type leasedBlock struct {
	ref      table.Ref
	position uint64
}

type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h leaseHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *leaseHeap) Push(x any)        { l := x.(*lease); l.at = len(*h); *h = append(*h, l) }
func (h *leaseHeap) Pop() any {
	l := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return l
}

const (
	// leaseCountMax is the most leases one block can be under.
	leaseCountMax = table.LeasesMax
	// leasePromisesMax bounds the memory of all leases: 16 bytes a promise.
	leasePromisesMax = 1 << 21
)

// leaseLocked leases the present blocks among refs, as far as the namespace's
// share allows, adding them to the lease of res.
func (ns *Namespace) leaseLocked(res *MatchResult, refs []table.Ref, present []bool, d time.Duration) {
	s := ns.s
	s.letGoLocked()
	now := time.Now()
	most := int(s.opts.LeaseShare * float64(ns.blocksMaxLocked()))
	for i, ref := range refs {
		if !present[i] {
			continue
		}
		rec := s.table.At(ref)
		g := s.segments[Place(rec.Place()).Segment()]
		if g.leaving || rec.Leases == leaseCountMax || rec.Leases == 0 && ns.sums.leased >= most || s.leases.held == leasePromisesMax {
			continue
		}
		if res.Lease == 0 {
			s.leases.lastID++
			l := &lease{id: s.leases.lastID, ns: ns, expires: now.Add(d)}
			s.leases.byID[l.id] = l
			heap.Push(&s.leases.expiry, l)
			res.Lease = l.id
		}
		l := s.leases.byID[res.Lease]
		if l == nil || !now.Before(l.expires) {
			res.Lease, res.Leased = 0, 0 // released, or over, while a long match was running
			return
		}
		if rec.Leases++; rec.Leases == 1 {
			g.addLeased(1)
		}
		l.blocks = append(l.blocks, leasedBlock{ref, rec.Position()})
		s.leases.held++
		res.Leased++
	}
}

// Release ends a lease early. An unknown or expired lease is ignored.
func (ns *Namespace) Release(id LeaseID) {
	s := ns.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases.byID[id]; l != nil && l.ns == ns {
		heap.Remove(&s.leases.expiry, l.at)
		s.leases.end(l)
		s.endLeasesLocked()
		s.wakeLocked()
	}
}

// end takes a lease that has left the heap out of the book: it is over, and its
// blocks are let go in pieces.
func (b *leaseBook) end(l *lease) {
	delete(b.byID, l.id)
	b.over = append(b.over, l)
}

// endLeasesLocked ends every lease whose time is over and lets go of the blocks of
// all that have ended.
func (s *Store) endLeasesLocked() {
	for s.letGoLocked() {
		s.turnLocked()
	}
}

// letGoLocked is one piece of endLeasesLocked; it reports whether there are more.
func (s *Store) letGoLocked() (more bool) {
	b, now := &s.leases, time.Now()
	for range s.turns.holdMax {
		if len(b.over) > 0 {
			b.letOneGo(s)
		} else if len(b.expiry) > 0 && !b.expiry[0].expires.After(now) {
			b.end(heap.Pop(&b.expiry).(*lease))
		} else {
			return false
		}
	}
	return true
}

// letOneGo lets go of the next block of a lease that is over.
func (b *leaseBook) letOneGo(s *Store) {
	l := b.over[len(b.over)-1]
	if l.letGo == len(l.blocks) {
		b.held -= len(l.blocks)
		b.over[len(b.over)-1] = nil
		b.over = b.over[:len(b.over)-1]
		return
	}
	lb := l.blocks[l.letGo]
	l.letGo++
	rec := s.table.Peek(lb.ref)
	if rec == nil || rec.Position() != lb.position || rec.Leases == 0 {
		return // evicted by drop, delete or capacity meanwhile
	}
	if rec.Leases--; rec.Leases == 0 {
		s.segments[Place(rec.Place()).Segment()].addLeased(-1)
		l.ns.unparkLocked(lb.ref, rec)
	}
}
