package pool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// mate is another node, as far as erasures go.
type mate struct {
	turn chan struct{} // a token: who tells it something; guards what follows

	told   bool // it has said what it knows
	clock  peer.Clock
	digest uint64

	merged atomic.Bool // since this node's start both have known the same
}

func (e *eraser) mate(id member.ID) *mate {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.mates[id]
	if m == nil {
		m = &mate{turn: make(chan struct{}, 1)}
		e.mates[id] = m
	}
	return m
}

// mergedWith reports whether the node has merged with another since its start.
func (e *eraser) mergedWith(id member.ID) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	m := e.mates[id]
	return m != nil && m.merged.Load()
}

var errStuck = errors.New("a merge of what was erased gets no further")

// settle makes this node and a peer know the same of what was erased, as of now.
func (e *eraser) settle(ctx context.Context, link transport.Link) error {
	m := e.mate(link.Peer().Node)
	if err := take(ctx, m.turn); err != nil {
		return err
	}
	defer func() { <-m.turn }()
	ours, _ := e.standing()
	var theirs peer.Clock
	for first := true; ; first = false {
		progress, err := e.round(ctx, link, m, peer.KindMerge)
		if err != nil {
			return err
		}
		if first {
			theirs = m.clock
		}
		clock, digest := e.standing()
		if m.clock.Covers(ours) && clock.Covers(theirs) && digest == m.digest {
			break
		}
		if !progress && !first {
			return errStuck
		}
	}
	e.counts.merges.Add(1)
	if m.merged.Load() {
		return nil
	}
	if err := e.commit(&batch{also: func(s *stateFile) { s.pooled = true }}); err != nil {
		return err
	}
	m.merged.Store(true)
	select {
	case e.merged <- struct{}{}:
	default:
	}
	return nil
}

// tell makes a peer take in what this node knows up to ours.
func (e *eraser) tell(ctx context.Context, link transport.Link, ours peer.Clock) error {
	m := e.mate(link.Peer().Node)
	if err := take(ctx, m.turn); err != nil {
		return err
	}
	defer func() { <-m.turn }()
	for first := true; !m.told || !m.clock.Covers(ours); first = false {
		progress, err := e.round(ctx, link, m, peer.KindDelete)
		if err != nil {
			return err
		}
		if !progress && !first {
			return errStuck
		}
	}
	return nil
}

// standing is what this node knows.
func (e *eraser) standing() (peer.Clock, uint64) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.known.clock(), e.known.digest
}

// round tells a peer a piece of what it lacks, and, in a merge, takes in a piece of what
// this node lacks. It needs the mate's turn.
func (e *eraser) round(ctx context.Context, link transport.Link, m *mate, kind transport.Kind) (progress bool, err error) {
	ask := peer.Merge{Wants: kind == peer.KindMerge}
	e.mu.RLock()
	ask.Clock, ask.Digest = e.known.clock(), e.known.digest
	if m.told {
		ask.Groups = e.known.lacking(m.clock, peer.ErasuresMax)
		if m.digest != ask.Digest {
			ask.Floors = e.known.floors()
		}
	}
	e.mu.RUnlock()
	body, err := link.Call(ctx, kind, peer.AppendMerge(nil, &ask))
	if err != nil {
		return false, err
	}
	answer, err := peer.ParseMerge(body)
	if err != nil {
		return false, fmt.Errorf("the answer to a merge: %w", err)
	}
	progress = !m.told || !m.clock.Covers(answer.Clock) || m.digest != answer.Digest
	m.told, m.clock, m.digest = true, answer.Clock, answer.Digest
	if ask.Wants {
		if err := e.takeIn(ctx, answer.Floors, answer.Groups); err != nil {
			return progress, err
		}
		clock, digest := e.standing()
		progress = progress || !ask.Clock.Covers(clock) || digest != ask.Digest
	}
	return progress, nil
}

// serve takes in what a peer tells, and answers with what this node knows and, if it is
// wanted, a piece of what the peer lacks.
func (e *eraser) serve(ctx context.Context, body []byte) ([]byte, error) {
	ask, err := peer.ParseMerge(body)
	if err != nil {
		return nil, err
	}
	if err := e.takeIn(ctx, ask.Floors, ask.Groups); err != nil {
		return nil, err
	}
	var answer peer.Merge
	e.mu.RLock()
	answer.Clock, answer.Digest = e.known.clock(), e.known.digest
	if ask.Wants {
		answer.Groups = e.known.lacking(ask.Clock, peer.ErasuresMax)
		if ask.Digest != answer.Digest {
			answer.Floors = e.known.floors()
		}
	}
	e.mu.RUnlock()
	return peer.AppendMerge(nil, &answer), nil
}

// serveErase answers what peers tell of erasures. It does so while the node joins, too.
func (p *Pool) serveErase() {
	serve := func(ctx context.Context, _ transport.Hello, body []byte) ([]byte, error) {
		return p.erase.serve(ctx, body)
	}
	p.servers[peer.KindDelete].call = serve
	p.servers[peer.KindMerge].call = serve
}
