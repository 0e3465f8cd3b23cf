package pool

import (
	"context"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
)

// serveMatch answers which blocks are here.
func (p *Pool) serveMatch() {
	p.servers[peer.KindMatch].call = func(_ context.Context, from transport.Hello, body []byte) ([]byte, error) {
		m, err := peer.ParseMatch(body)
		if err != nil {
			return nil, err
		}
		space, err := p.admit(from, &m.Scope)
		if err != nil {
			return nil, err
		}
		a := peer.Matched{IDs: len(m.IDs), Bitmap: make([]byte, (len(m.IDs)+7)/8)}
		var present []bool
		if m.LeaseMS > 0 {
			lease := min(time.Duration(m.LeaseMS)*time.Millisecond, leaseMax)
			var release func()
			var leased int
			present, leased, release = space.Lease(m.IDs, engine.MatchOptions{Lease: lease})
			if a.Lease = p.lent.keep(from.Node, lease, release); a.Lease != 0 {
				a.Leased = uint32(leased)
			}
		} else {
			present = space.Present(m.IDs)
		}
		for i, yes := range present {
			if yes {
				a.Bitmap[i/8] |= 1 << (i % 8)
			}
		}
		return a.Append(nil), nil
	}
}

// serveRelease ends a lease.
func (p *Pool) serveRelease() {
	p.servers[peer.KindRelease].call = func(_ context.Context, from transport.Hello, body []byte) ([]byte, error) {
		number, err := peer.ParseRelease(body)
		if err == nil {
			p.lent.end(from.Node, number)
		}
		return nil, err
	}
}

const (
	// leaseMax caps the leases that others have here.
	leaseMax = time.Minute
	// lentMax bounds those of all others together. One has at most as many of them as are
	// free, so that there is always room for another: half if it is alone, else less. What
	// is asked for beyond is found without a lease.
	lentMax = 1 << 14
	// lentSweep is how often those that have ended by their time are looked for, at most.
	lentSweep = time.Second
)

// lentLeases are the leases that other nodes have here. One ends by a Release of the node
// that has it, or by its time.
type lentLeases struct {
	mu       sync.Mutex
	byNumber map[uint64]lentLease
	of       map[member.ID]int // how many each has
	last     uint64
	swept    time.Time
}

type lentLease struct {
	to      member.ID
	expires time.Time
	release func()
}

// keep gives a lease its number. 0: there is none, or no room for it.
func (l *lentLeases) keep(to member.ID, d time.Duration, release func()) uint64 {
	if release == nil {
		return 0
	}
	now := time.Now()
	l.mu.Lock()
	if l.fullLocked(to) && now.Sub(l.swept) >= lentSweep {
		l.swept = now
		for number, old := range l.byNumber {
			if old.expires.Before(now) { // its store has ended it
				l.dropLocked(number)
			}
		}
	}
	full := l.fullLocked(to)
	number := l.last + 1
	if !full {
		if l.byNumber == nil {
			l.byNumber, l.of = map[uint64]lentLease{}, map[member.ID]int{}
		}
		l.last = number
		l.byNumber[number] = lentLease{to, now.Add(d), release}
		l.of[to]++
	}
	l.mu.Unlock()
	if full {
		release()
		return 0
	}
	return number
}

func (l *lentLeases) fullLocked(to member.ID) bool { return l.of[to] >= lentMax-len(l.byNumber) }

func (l *lentLeases) dropLocked(number uint64) {
	release(l.of, l.byNumber[number].to)
	delete(l.byNumber, number)
}

// end releases a lease. An unknown one has ended before.
func (l *lentLeases) end(to member.ID, number uint64) {
	l.mu.Lock()
	lease, ok := l.byNumber[number]
	if ok = ok && lease.to == to; ok {
		l.dropLocked(number)
	}
	l.mu.Unlock()
	if ok {
		lease.release()
	}
}

func (l *lentLeases) releaseAll() {
	l.mu.Lock()
	all := l.byNumber
	l.byNumber, l.of = nil, nil
	l.mu.Unlock()
	for _, lease := range all {
		lease.release()
	}
}

func (l *lentLeases) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byNumber)
}
