package member

import (
	"github.com/spillway-kv/spillway/cluster/journal"
)

// Refused is closed when this node may not be a member any more; Err says why. It is out
// of the pool then, and should stop: to come back it is started again.
func (g *Gossip) Refused() <-chan struct{} { return g.refusedC }

// Err is what Refused was closed for: an error that matches ErrDuplicate, ErrForgotten,
// ErrRepeated or ErrUnreachable; nil before.
func (g *Gossip) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// refuse takes this node out of the pool, without a farewell: it may have another's name.
func (g *Gossip) refuse(err error) {
	g.mu.Lock()
	first := g.refused == nil && g.ctx.Err() == nil
	if first {
		g.refused = err
	}
	g.mu.Unlock()
	if first {
		close(g.refusedC)
		g.o.Journal.Add(journal.Conflict, "", "this node is no member: %v", err)
	}
}

// endLoop ends the library as soon as this node must stop.
func (g *Gossip) endLoop() {
	select {
	case <-g.refusedC:
		g.endLibrary()
	case <-g.ctx.Done():
	}
}

func (g *Gossip) endLibrary() {
	g.announcing.Lock()
	g.left = true
	g.announcing.Unlock()
	if err := g.list.Shutdown(); err != nil {
		g.log.Warn("gossip does not end as it should", "err", err)
	}
}
