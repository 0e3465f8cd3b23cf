package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine/planted"
)

// scope is what calls about blocks say first. Take it before the first look at the blocks
// that the call is about: before a block is read to be moved, when a client's put begins.
// A copy of a block goes with the scope from before it was read, however often it is sent.
func (p *Pool) scope(of Of) *peer.Scope {
	s := &peer.Scope{Namespace: of.Namespace, Incarnation: of.Incarnation}
	e := p.erase
	e.mu.RLock()
	defer e.mu.RUnlock()
	if known := e.known.spaces[of.Namespace]; known != nil {
		s.Clock = e.answeredRLocked(known.clock)
	}
	return s
}

// answeredRLocked is a clock without this node's own erasures that are still on their way
// to the others: whoever asks meanwhile is not to wait for them.
func (e *eraser) answeredRLocked(c peer.Clock) peer.Clock {
	i, found := c.Find(e.self)
	told := e.told.Load()
	if !found || c[i].Seq <= told {
		return c
	}
	c = slices.Clone(c)
	if told == 0 {
		return slices.Delete(c, i, i+1)
	}
	c[i].Seq = told
	return c
}

// admit finds the namespace that a peer's call is about, if this node knows of every
// erasure in it that the peer knows of; otherwise the error says who is behind.
func (p *Pool) admit(_ transport.Hello, s *peer.Scope) (Space, error) {
	e := p.erase
	if !e.open.Load() {
		return nil, &transport.RemoteError{Code: transport.CodeJoining, Text: "this node has not merged with all others yet"}
	}
	e.mu.RLock()
	floor, covers := e.known.floorOf(s.Namespace), e.known.covers(s.Clock)
	e.mu.RUnlock()
	switch {
	case s.Incarnation < floor:
		e.counts.floors.Add(1)
		return nil, &transport.RemoteError{Code: transport.CodeFloor, Text: fmt.Sprintf("the namespace has incarnation %d here", floor)}
	case s.Incarnation > floor || !covers && !planted.Active(planted.IgnoreClock):
		e.counts.behind.Add(1)
		return nil, &transport.RemoteError{Code: transport.CodeBehind, Text: "this node does not know of all erasures that the caller knows of"}
	}
	space := p.local.Space(s.Namespace)
	if space == nil {
		return nil, &transport.RemoteError{Code: transport.CodeUnknown, Text: "no such namespace here"}
	}
	return space, nil
}

// merge makes both ends of a new link know the same of what was erased. Until it has
// succeeded the link is used for nothing else.
func (p *Pool) merge(ctx context.Context, link transport.Link) error {
	return p.erase.settle(ctx, link)
}

// catchUp is called when a peer has refused a call about blocks. It reports whether the
// call, with the very same scope, is worth a second try since the peer knows more now.
func (p *Pool) catchUp(ctx context.Context, link transport.Link, of Of, cause error) bool {
	code, told := codeOf(cause)
	if !told || code != transport.CodeBehind && code != transport.CodeFloor {
		return false
	}
	p.erase.counts.caughtUp.Add(1)
	settled := make(chan error, 1) // which waits for drives, whoever gives the call up
	if !p.spawn(func() { settled <- p.erase.settle(ctx, link) }) {
		return false
	}
	var err error
	select {
	case err = <-settled:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		p.log.Debug("a peer that is behind could not be told what was erased", "peer", link.Peer().Node, "cause", err)
		return false
	}
	return code == transport.CodeBehind && p.erase.floor(of.Namespace) == of.Incarnation
}

// eraseMax bounds the blocks that are erased at once.
const eraseMax = 4096

// Delete erases blocks in the whole pool: here first, durably, then on every other member
// that can be reached. incarnation is what the IDs were derived from. missing is how many
// members have not confirmed it when Delete returns, which it does within
// EraseOptions.Time: they learn of it before they answer anybody who knows of it. After an
// error nobody knows which of the blocks are erased, and where. Where the namespace has
// another incarnation by then, blocks that were put under that one are not: call it again.
func (p *Pool) Delete(ctx context.Context, space Space, incarnation uint32, ids []ID) (missing int, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Erase.Time)
	defer cancel()
	for len(ids) > 0 {
		n := min(len(ids), eraseMax)
		if err := p.erase.eraseHere(ctx, space, incarnation, ids[:n]); err != nil {
			return 0, err
		}
		ids = ids[n:]
	}
	return p.erase.spread(ctx), nil
}

// ErasureTime bounds how long a Delete or Drop waits for other members.
func (p *Pool) ErasureTime() time.Duration { return p.o.Erase.Time }

// Drop erases a namespace in the whole pool, as Delete does blocks.
func (p *Pool) Drop(ctx context.Context, space Space) (missing int, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Erase.Time)
	defer cancel()
	if err := p.erase.dropHere(ctx, space); err != nil {
		return 0, err
	}
	return p.erase.spread(ctx), nil
}

// Floor is the lowest incarnation of a namespace that is not erased: whoever opens it
// raises it to that.
func (p *Pool) Floor(namespace [32]byte) uint32 { return p.erase.floor(namespace) }

// spread tells every other member what this node has erased, and returns how many have
// not confirmed it.
func (e *eraser) spread(ctx context.Context) (missing int) {
	e.mu.RLock()
	ours := peer.Clock{{Origin: e.self, Seq: e.known.clockOf(e.self)}}
	e.mu.RUnlock()
	var told sync.WaitGroup
	var without atomic.Int64
	for _, r := range e.p.peers.all() {
		if planted.Active(planted.TellNobody) {
			break
		}
		state := r.described().State
		if state == member.Leaving {
			continue
		}
		told.Go(func() {
			if err := e.tellRemote(ctx, r, ours); err != nil && state != member.Joining { // it merges before it answers anybody
				without.Add(1)
				e.p.log.Debug("a member has not confirmed what was erased", "peer", r.id, "cause", err)
			}
		})
	}
	told.Wait()
	for at := e.told.Load(); at < ours[0].Seq && !e.told.CompareAndSwap(at, ours[0].Seq); at = e.told.Load() {
	}
	e.counts.missing.Add(uint64(without.Load()))
	return int(without.Load())
}

// tellRemote tells one member, if there is a link to it. One that is in doubt gets little
// time.
func (e *eraser) tellRemote(ctx context.Context, r *remote, ours peer.Clock) error {
	link, doubtful := r.linked()
	if link == nil {
		return errDown
	}
	if doubtful {
		short, cancel := context.WithTimeout(ctx, e.p.o.Erase.Time/8)
		defer cancel()
		ctx = short
	}
	return e.tell(ctx, link, ours)
}

// linked is the link to a member, nil if there is none, and whether the member is known
// not to answer at the moment.
func (r *remote) linked() (link transport.Link, doubtful bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link, r.member.Suspect || r.breaker.open
}
