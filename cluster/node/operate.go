package node

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/engine"
)

// What an operator does to a node that serves.

var errDisconnected = errors.New("disconnected by the operator")

// Disconnect ends a client's connection, by its number, as if the client had died.
// It reports whether there was one. The client may come back.
func (n *Node) Disconnect(number uint64) bool {
	c := n.connection(number)
	if c == nil {
		return false
	}
	c.end(errDisconnected)
	<-c.ended
	return true
}

// DropNamespace drops a namespace, by name or by the beginning of its ID, on every
// store that has it, in use or not. Clients that use it miss, and may put again.
// In a pool it goes on all nodes. engine.ErrNotFound if no store has it.
func (n *Node) DropNamespace(nameOrID string) error {
	if n.pool != nil {
		all, err := n.findNamespaces(nameOrID)
		if err != nil {
			return err
		}
		s, err := n.open(all[0].Descriptor())
		if err != nil {
			return err
		}
		return n.dropSpace(s)
	}
	return n.eachNamespace(nameOrID, func(ns *engine.Namespace) error {
		defer n.forget(n.spaceOf(ns))
		return ns.Drop()
	})
}

// spaceOf is the space of a namespace; nil if no client has opened it.
func (n *Node) spaceOf(ns *engine.Namespace) *space {
	n.events.mu.Lock()
	defer n.events.mu.Unlock()
	return n.events.spaces[ns]
}

// SetQuota bounds a namespace over all stores, by name or by the beginning of its
// ID, until it is set anew; 0 or NoQuota: no bound.
func (n *Node) SetQuota(nameOrID string, bytes int64) error {
	if bytes <= 0 {
		bytes = NoQuota
	}
	return n.eachNamespace(nameOrID, func(ns *engine.Namespace) error { return setPartQuota(ns, bytes, len(n.stores)) })
}

// eachNamespace calls f for a namespace on every store that has it.
func (n *Node) eachNamespace(nameOrID string, f func(*engine.Namespace) error) error {
	all, err := n.findNamespaces(nameOrID)
	if err != nil {
		return err
	}
	var errs []error
	for _, ns := range all {
		errs = append(errs, f(ns))
	}
	return errors.Join(errs...)
}

// findNamespaces is a namespace on every store that has it.
func (n *Node) findNamespaces(nameOrID string) (all []*engine.Namespace, err error) {
	for _, s := range n.stores {
		ns, err := s.FindNamespace(nameOrID)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && all[0].ID() != ns.ID() {
			return nil, fmt.Errorf("%w: %q is one namespace on one store and another on the next; use the beginning of an ID", engine.ErrConfig, nameOrID)
		}
		all = append(all, ns)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %q", engine.ErrNotFound, nameOrID)
	}
	return all, nil
}

// Instance is 32 hex digits, new at each start.
func (n *Node) Instance() string { return hex.EncodeToString(n.instance[:]) }

// Alive returns when it has had the node's and its drives' locks: a node that hangs
// in itself keeps its caller waiting. It waits for no drive and no client.
func (n *Node) Alive() {
	_ = n.connection(0) // takes the node's lock
	for _, d := range n.drives {
		_ = d.stat()
	}
}
