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
	lastID LeaseID
	held   int // promises of all leases together: one for each block of each
}

// lease holds some blocks of one namespace.
type lease struct {
	id      LeaseID
	ns      *Namespace
	expires time.Time
	blocks  []leasedBlock
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
	leaseCountMax = 1<<16 - 1
	// leasePromisesMax bounds the memory of all leases: 16 bytes a promise.
	leasePromisesMax = 1 << 21
)

// leaseLocked leases the present blocks among refs, as far as the namespace's
// share allows, adding them to the lease of res.
func (ns *Namespace) leaseLocked(res *MatchResult, refs []table.Ref, present []bool, d time.Duration) {
	s := ns.s
	s.leases.expireLocked(s)
	most := int(s.opts.LeaseShare * float64(ns.blocksMaxLocked()))
	for i, ref := range refs {
		if !present[i] {
			continue
		}
		rec := s.table.At(ref)
		if rec.Leases == leaseCountMax || rec.Leases == 0 && ns.leased >= most || s.leases.held == leasePromisesMax {
			continue
		}
		if res.Lease == 0 {
			s.leases.lastID++
			l := &lease{id: s.leases.lastID, ns: ns, expires: time.Now().Add(d)}
			s.leases.byID[l.id] = l
			heap.Push(&s.leases.expiry, l)
			res.Lease = l.id
		}
		l := s.leases.byID[res.Lease]
		if l == nil {
			res.Lease, res.Leased = 0, 0 // released, or over, while a long match was running
			return
		}
		if rec.Leases++; rec.Leases == 1 {
			ns.leased++
		}
		l.blocks = append(l.blocks, leasedBlock{ref, rec.Position})
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
		s.leases.endLocked(s, l)
		s.wakeLocked()
	}
}

// expireLocked ends every lease whose time is over.
func (b *leaseBook) expireLocked(s *Store) {
	now := time.Now()
	for len(b.expiry) > 0 && !b.expiry[0].expires.After(now) {
		l := heap.Pop(&b.expiry).(*lease)
		b.endLocked(s, l)
	}
}

// endLocked lets go of the blocks of a lease that has left the heap.
func (b *leaseBook) endLocked(s *Store, l *lease) {
	delete(b.byID, l.id)
	b.held -= len(l.blocks)
	for _, lb := range l.blocks {
		rec := s.table.Peek(lb.ref)
		if rec == nil || rec.Position != lb.position || rec.Leases == 0 {
			continue // evicted by drop, delete or capacity meanwhile
		}
		if rec.Leases--; rec.Leases == 0 {
			l.ns.leased--
			l.ns.unparkLocked(lb.ref, rec)
		}
	}
}
