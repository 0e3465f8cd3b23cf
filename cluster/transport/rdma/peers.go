package rdma

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// peer is what is known of another node, over all links with it. It is kept beyond them, for
// its counters, but not of any number of nodes: see Transport.leave.
type peer struct {
	counters
	rails atomic.Int64 // of sessions that this node fetches over
	known atomic.Bool  // this node has dialled it: who is above does so with all members of a pool

	// Guarded by the Transport's mu.
	users int    // links, and sessions that the node has made
	left  uint64 // when the last user has left: a number that grows

	mu    sync.Mutex
	state peerState
	why   string    // no session is up
	quiet bool      // the log was not told of the last change
	told  time.Time // when the log was last told that it is down
}

// quietTime is how long the log is told nothing of a peer whose sessions come and go.
const quietTime = time.Minute

// peerState is what was last said of a peer in the log.
type peerState uint8

const (
	peerNew peerState = iota
	peerUp
	peerDown
	peerNever // it does not know RDMA
)

// counters are those of transport.Way.
type counters struct {
	blocks, bytes, sentBlocks, sentBytes, pieces            atomic.Uint64
	fallbacks, fences, destroyed, connects, failures, stuck atomic.Uint64
}

// peersMax is how many peers without a link or a session are kept.
const peersMax = 1024

// enter gives what is known of a node to one more user of it, who has dialled it or not.
func (t *Transport) enter(id member.ID, dialled bool) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil {
		p = &peer{why: "RDMA is being set up"}
		t.peers[id] = p
	}
	p.users++
	if dialled {
		p.known.Store(true)
	}
	return p
}

// leave ends what enter has begun. Of too many that nobody uses the one that was left first is
// forgotten, one that was never dialled before others: strangers come under any number
// of names. A node that comes back after that is counted from 0.
func (t *Transport) leave(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	t.leaves++
	p.left = t.leaves
	var first member.ID
	var oldest *peer
	idle := 0
	for id, q := range t.peers {
		if q.users > 0 {
			continue
		}
		idle++
		known := q.known.Load()
		if oldest == nil || !known && oldest.known.Load() || known == oldest.known.Load() && q.left < oldest.left {
			first, oldest = id, q
		}
	}
	if idle > peersMax {
		delete(t.peers, first)
	}
}

// knows reports whether this node has ever dialled another, as far as it remembers.
func (t *Transport) knows(id member.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	return p != nil && p.known.Load()
}

// becomes notes what is so now; true: that is news for the log. A peer that is down once more
// within quietTime is none, nor that it is up again after that.
func (p *peer) becomes(s peerState, why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.state != s
	p.state, p.why = s, why
	switch now := time.Now(); {
	case !changed && (s != peerDown || !p.quiet):
		return false
	case s == peerDown && !p.told.IsZero() && now.Sub(p.told) < quietTime:
		p.quiet = true
		return false
	case s == peerDown: // for the first time, again, or still
		p.told, p.quiet = now, false
	case s == peerUp && p.quiet:
		p.quiet = false
		return false
	}
	return true
}

// plainAlways is a time that no process lives to see.
const plainAlways = 100 * 365 * 24 * time.Hour

// Way implements transport.Ways.
func (t *Transport) Way(id member.ID) transport.Way {
	t.mu.Lock()
	p := t.peers[id]
	t.mu.Unlock()
	if p == nil {
		return transport.Way{Name: t.o.Control.Name()}
	}
	w := transport.Way{
		Name: t.Name(), Ports: int(p.rails.Load()),
		Blocks: p.blocks.Load(), Bytes: p.bytes.Load(),
		SentBlocks: p.sentBlocks.Load(), SentBytes: p.sentBytes.Load(), Pieces: p.pieces.Load(),
		Fallbacks: p.fallbacks.Load(), Fences: p.fences.Load(), Destroyed: p.destroyed.Load(),
		Connects: p.connects.Load(), Failures: p.failures.Load(),
	}
	if left := t.plainLeft(); left > 0 {
		w.Name = t.o.Control.Name()
		if w.Why = "an operator has asked for it"; left < plainAlways {
			w.Why += fmt.Sprintf(", for %v more", left.Round(time.Second))
		}
	} else if w.Ports == 0 {
		p.mu.Lock()
		w.Name, w.Why = t.o.Control.Name(), p.why
		p.mu.Unlock()
	}
	return w
}
