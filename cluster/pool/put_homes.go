package pool

import (
	"slices"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/tiering/place"
)

// homes are the nodes that may take new blocks now.
type homes struct {
	set    *place.Set
	nodes  []*remote // of the set; nil stands for this node
	keeper bool      // this node keeps what is put to it
}

// homes are this node, if it takes new blocks, and the active members that can be asked.
func (p *Pool) homes() *homes {
	h := &homes{}
	var nodes []place.Node
	for _, m := range p.o.Members.Members() {
		var r *remote
		if self := m.Self || m.ID == p.o.Node; !self {
			if r = p.peers.of(m.ID); r == nil || !r.usable() {
				continue
			}
		} else if m.State == member.Active {
			h.keeper = p.o.LocalPlacement
		}
		if m.State != member.Active {
			continue
		}
		nodes = append(nodes, place.Node{ID: m.ID, Zone: m.Zone, Weight: place.Weight(m.CapacityBytes, m.FreeBytes)})
		h.nodes = append(h.nodes, r)
	}
	h.set = place.NewSet(nodes)
	return h
}

// order is who is to have a run that begins with this ID, best first: so many copies, and
// then those that stand in. nil stands for this node.
func (h *homes) order(id ID, copies int) []*remote {
	at := h.set.Order(id, copies)
	order := make([]*remote, len(at))
	for i, n := range at {
		order[i] = h.nodes[n]
	}
	if h.keeper {
		if i := slices.Index(order, nil); i > 0 {
			copy(order[1:i+1], order[:i])
			order[0] = nil
		}
	}
	return order
}
