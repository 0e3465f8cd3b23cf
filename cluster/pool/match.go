package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/peer"
)

// MatchOptions govern one Match.
type MatchOptions struct {
	// Lease keeps what is found for that long, as far as its nodes allow.
	Lease time.Duration
	// Done ends the wait when it is closed. The pool's MatchTime does so anyway.
	Done <-chan struct{}
}

// MatchResult is what the others have.
type MatchResult struct {
	At     []Place // of each block, as far as was answered
	Leased int     // promises of all nodes together
	// Release ends the leases early; it does not wait. nil: there are none.
	Release func()
	Asked   int // nodes
	Silent  int // of those, nodes that have not answered
}

// Match asks all other nodes at once which of these blocks they have, and waits until all
// have answered, or MatchTime has passed, or o.Done is closed. What they answer, in time or
// not, is remembered. ids is not kept.
func (p *Pool) Match(of Of, ids []ID, o MatchOptions) MatchResult {
	return p.matchAmong(p.peers.usable(), of, ids, o)
}

func (p *Pool) matchAmong(remotes []*remote, of Of, ids []ID, o MatchOptions) MatchResult {
	if len(ids) == 0 || len(ids) > peer.IDsMax {
		return MatchResult{At: make([]Place, len(ids))}
	}
	p.counts.matches.Add(1)
	p.counts.asked.Add(uint64(len(ids)))
	m := &matching{pool: p, of: of, ids: append([]ID(nil), ids...), lease: o.Lease,
		done: make(chan struct{}), at: make([]Place, len(ids)), asked: len(remotes)}
	m.rest = peer.AppendMatch(nil, uint32(min(o.Lease.Milliseconds(), 1<<31)), ids)
	m.waiting = 1 + len(remotes) // this goroutine among them, until all are asked
	for _, r := range remotes {
		if !p.spawn(func() { m.ask(r) }) {
			m.answered(r, nil)
		}
	}
	m.answered(nil, nil)
	timer := time.NewTimer(p.o.MatchTime)
	defer timer.Stop()
	select {
	case <-m.done:
	case <-timer.C:
	case <-o.Done:
	case <-p.ctx.Done():
	}
	return m.close()
}

// matching is one Match under way. Who answers after it has closed is only remembered.
type matching struct {
	pool  *Pool
	of    Of
	ids   []ID
	rest  []byte // of the body
	lease time.Duration
	done  chan struct{} // closed when all have answered
	asked int

	mu      sync.Mutex
	waiting int
	closed  bool
	at      []Place
	said    int // answers
	leased  int
	leases  []farLease
}

// farLease is a lease at another node.
type farLease struct {
	remote *remote
	number uint64
}

// ask asks one node. It takes its full time, whoever waits.
func (m *matching) ask(r *remote) {
	ctx, cancel := context.WithTimeout(r.ctx, m.pool.o.MatchTime)
	defer cancel()
	r.counts.matches.Add(1)
	body, err := r.call(ctx, m.of, peer.KindMatch, m.rest)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			r.counts.matchesLate.Add(1)
		}
		m.answered(r, nil)
		return
	}
	a, err := peer.ParseMatched(body, len(m.ids))
	if err != nil {
		r.counts.malformed.Add(1)
		m.pool.log.Warn("a peer's answer is malformed", "peer", r.id, "cause", err)
		m.answered(r, nil)
		return
	}
	for i := range m.ids {
		if a.Has(i) {
			m.pool.hints.add(&m.ids[i], r.number)
		}
	}
	m.answered(r, &a)
}

// answered takes in an answer; nil: there is none.
func (m *matching) answered(r *remote, a *peer.Matched) {
	m.mu.Lock()
	late := m.closed
	if a != nil && !late {
		m.said++
		for i := range m.at {
			if a.Has(i) {
				m.at[i].add(r.number)
			}
		}
		if a.Lease != 0 {
			m.leases = append(m.leases, farLease{r, a.Lease})
			m.leased += int(a.Leased)
		}
	}
	if m.waiting--; m.waiting == 0 {
		close(m.done)
	}
	m.mu.Unlock()
	if late && a != nil && a.Lease != 0 {
		m.pool.release([]farLease{{r, a.Lease}})
	}
}

// close ends the wait.
func (m *matching) close() MatchResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	res := MatchResult{At: m.at, Leased: m.leased, Asked: m.asked, Silent: m.asked - m.said}
	if leases := m.leases; len(leases) > 0 {
		res.Release = sync.OnceFunc(func() { m.pool.release(leases) })
	}
	found := 0
	for _, at := range m.at {
		if at.Known() {
			found++
		}
	}
	m.pool.counts.found.Add(uint64(found))
	return res
}

// Find says where blocks are: by what is remembered, and by a Match for those of which
// nothing is. A remembered place may be wrong.
func (p *Pool) Find(of Of, ids []ID, done <-chan struct{}) []Place {
	at := make([]Place, len(ids))
	var unknown []ID
	var which []int
	now := p.peers.reachable()
	for i := range ids {
		if at[i] = now.hinted(p.hints, &ids[i]); !at[i].Known() {
			unknown, which = append(unknown, ids[i]), append(which, i)
		}
	}
	if len(unknown) > 0 {
		for j, found := range p.Match(of, unknown, MatchOptions{Done: done}).At {
			at[which[j]] = found
		}
	}
	return at
}
