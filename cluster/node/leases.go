package node

import (
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// leaseBook is the leases of one connection. A lease ends by Release, by its time,
// or with the connection.
type leaseBook struct {
	byNumber map[uint64]connLease
	last     uint64
}

type connLease struct {
	parts   []partLease
	away    func() // ends what other nodes have leased; nil: nothing
	expires time.Time
}

// partLease is the lease of one store.
type partLease struct {
	ns *engine.Namespace
	id engine.LeaseID
}

// mayLease reports whether the connection may take another lease. Those whose
// time is over do not count.
func (c *conn) mayLease() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.leases
	if len(b.byNumber) < c.options.LeasesMax {
		return true
	}
	now := time.Now()
	for number, l := range b.byNumber {
		if l.expires.Before(now) {
			delete(b.byNumber, number)
		}
	}
	return len(b.byNumber) < c.options.LeasesMax
}

// leaseMax is after what time a lease counts no more; a store that is set to hold
// longer ones does so, but they cannot be released early.
const leaseMax = time.Minute

// keepLease gives a lease its number; 0 for none.
func (c *conn) keepLease(l connLease, d time.Duration) uint64 {
	if len(l.parts) == 0 && l.away == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.leases
	if b.byNumber == nil {
		b.byNumber = map[uint64]connLease{}
	}
	b.last++
	l.expires = time.Now().Add(min(d, leaseMax))
	b.byNumber[b.last] = l
	return b.last
}

// release ends a lease. An unknown one has ended before.
func (c *conn) release(number uint64) {
	c.mu.Lock()
	l := c.leases.byNumber[number]
	delete(c.leases.byNumber, number)
	c.mu.Unlock()
	l.end()
}

func (l connLease) end() {
	for _, p := range l.parts {
		p.ns.Release(p.id)
	}
	if l.away != nil {
		l.away()
	}
}

// takeAll empties the book; whoever takes ends the leases, which may take a while.
func (b *leaseBook) takeAll() map[uint64]connLease {
	all := b.byNumber
	b.byNumber = nil
	return all
}
