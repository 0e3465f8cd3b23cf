package rdma

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// peer is what is known of another node, over all links with it and for good.
type peer struct {
	counters
	rails atomic.Int64 // of sessions that this node fetches over

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

// peer gives what is known of a node.
func (t *Transport) peer(id member.ID) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil {
		p = &peer{why: "RDMA is being set up"}
		t.peers[id] = p
	}
	return p
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
