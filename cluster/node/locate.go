package node

import (
	"context"
	"encoding/hex"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
)

// Locate says on which nodes of the pool blocks of a namespace are, by name or by the
// beginning of its ID: this node first, then others as they have answered in time.
// engine.ErrNotFound if this node has no such namespace. The node has a pool.
func (n *Node) Locate(ctx context.Context, nameOrID string, group uint32, keys [][]byte) ([][]member.Member, error) {
	all, err := n.findNamespaces(nameOrID)
	if err != nil {
		return nil, err
	}
	space := local{n}.Space(idOf(all[0]))
	if space == nil { // dropped since
		return nil, engine.ErrNotFound
	}
	asked := make([]engine.Key, len(keys))
	for i := range keys {
		asked[i] = engine.Key{Group: group, Bytes: keys[i]}
	}
	ids, incarnation := space.IDs(asked)
	of := pool.Of{Namespace: space.ID(), Incarnation: incarnation, BlockBytes: space.Descriptor().BlockBytes}
	elsewhere := n.pool.Match(of, ids, pool.MatchOptions{Done: ctx.Done()})
	here := space.Present(ids)
	places := make([][]member.Member, len(keys))
	for i := range places {
		if here[i] {
			places[i] = append(places[i], n.pool.Self())
		}
		places[i] = append(places[i], n.pool.Nodes(elsewhere.At[i])...)
	}
	return places, nil
}

// idOf is a namespace's ID in bytes.
func idOf(ns *engine.Namespace) (id [32]byte) {
	b, _ := hex.DecodeString(ns.ID()) // the engine's own
	copy(id[:], b)
	return id
}
