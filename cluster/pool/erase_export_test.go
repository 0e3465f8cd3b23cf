package pool

import (
	"context"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/engine"
)

// Mark is how far this node's own erasures are.
func (p *Pool) Mark() peer.Mark {
	p.erase.mu.RLock()
	defer p.erase.mu.RUnlock()
	return peer.Mark{Origin: p.erase.self, Seq: p.erase.known.clockOf(p.erase.self)}
}

// Knows reports whether another node's erasures are known so far.
func (p *Pool) Knows(m peer.Mark) bool {
	p.erase.mu.RLock()
	defer p.erase.mu.RUnlock()
	return p.erase.known.covers(peer.Clock{m})
}

// Standing is all that is known.
func (p *Pool) Standing() (peer.Clock, uint64) { return p.erase.standing() }

// Carry moves a copy of a block to another member: read it, pause, send it.
func (p *Pool) Carry(ctx context.Context, of Of, id ID, key engine.Key, to member.ID, pause func()) (sent bool) {
	r := p.peers.of(to)
	space := p.local.Space(of.Namespace)
	if r == nil || space == nil {
		return false
	}
	m := &peer.Put{Scope: *p.scope(of), Flags: peer.PutAdmitted}
	space.Read(ctx, []ID{id}, func(_ int, pieces [][]byte, checksum uint64, done func()) {
		defer done()
		pause()
		m.Items = []peer.PutItem{{Checksum: checksum, Key: key}}
		sent = r.push(ctx, of, m, [][][]byte{pieces}, func(answer []byte) error {
			_, err := peer.ParseTaken(answer, 1)
			return err
		}) == nil
	})
	return sent
}

// FailState makes writes of the state fail from now on.
func (p *Pool) FailState(err error) {
	p.erase.logging <- struct{}{}
	defer func() { <-p.erase.logging }()
	_ = p.erase.state.fail(err)
}

// Remembered is how much is: namespaces, nodes, and pairs of both.
func (p *Pool) Remembered() [3]int {
	p.erase.mu.RLock()
	defer p.erase.mu.RUnlock()
	k := p.erase.known
	return [3]int{len(k.spaces), len(k.origins), k.pairs}
}

// RememberedMax bounds it.
var RememberedMax = [3]int{spacesMax, originsMax, pairsMax}
