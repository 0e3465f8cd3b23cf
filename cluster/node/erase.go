package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// delete erases blocks, in a pool of nodes on all of them, and answers how many were here.
func (c *conn) delete(m *wire.KeyList) (wire.Message, error) {
	if c.node.pool == nil {
		n, err := c.counting(m, func(p *part, keys []engine.Key) (int, error) { return p.ns.Delete(keys) })
		return wire.Number(n), err
	}
	s, keys, err := c.asked(m.Namespace, m.Group, m.Keys)
	if err != nil {
		return nil, err
	}
	here, missing, err := poolSpace{s, c.node}.deleteAll(keys)
	if err != nil {
		return nil, fmt.Errorf("delete in the pool: %w", err)
	}
	c.node.unconfirmed("delete", s.name, missing)
	return wire.Number(here), nil
}

// Holds implements pool.Local.
func (l local) Holds(id [32]byte) bool {
	return slices.ContainsFunc(l.n.stores, func(s *engine.Store) bool { return s.NamespaceOf(id) != nil })
}

// deleteAll erases blocks in the whole pool. here is how many were on this node; missing as
// pool.Pool has it. If the node learns of a drop meanwhile, blocks that others have put since
// that drop have other IDs, and are erased by these. Each time it waits half as long for
// others as before: in all at most twice the pool's time.
func (p poolSpace) deleteAll(keys []engine.Key) (here, missing int, err error) {
	for wait := p.n.pool.ErasureTime(); ; wait /= 2 {
		ids, incarnation := p.IDs(keys)
		for _, yes := range p.Present(ids) {
			if yes {
				here++
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		missing, err = p.n.pool.Delete(ctx, p, incarnation, ids)
		cancel()
		if err != nil || p.Incarnation() == incarnation {
			return here, missing, err
		}
	}
}

// dropSpace erases a namespace, in a pool on all its nodes.
func (n *Node) dropSpace(s *space) error {
	if n.pool == nil {
		defer n.forget(s)
		return s.drop()
	}
	missing, err := n.pool.Drop(context.Background(), poolSpace{s, n})
	if err != nil {
		return fmt.Errorf("drop in the pool: %w", err)
	}
	n.unconfirmed("drop", s.name, missing)
	return nil
}

// unconfirmed says that some nodes have still to learn of an erasure. They do before they
// answer a node that knows of it.
func (n *Node) unconfirmed(what, namespace string, missing int) {
	if missing > 0 {
		n.log.Info("nodes that did not confirm an erasure learn of it later", "what", what, "namespace", namespace, "nodes", missing)
	}
}
