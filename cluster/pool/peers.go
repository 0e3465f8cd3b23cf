package pool

import (
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/member"
)

// peers are the other members of the pool.
type peers struct {
	pool *Pool

	mu       sync.Mutex
	byID     map[member.ID]*remote
	numbered []*remote // by number - 1; nil where the member has gone
	gone     []*remote // the latest members that have, for the statistics
}

// numberMax bounds the numbers that members get, each at its coming, while this node
// runs: what is remembered of blocks names them. A member beyond has number 0, and nothing
// is remembered of it.
const numberMax = 1<<16 - 1

// goneMax bounds the members that have gone of which the statistics still tell.
const goneMax = 32

// follow keeps up with the membership until the pool stops.
func (ps *peers) follow() {
	for {
		changed := ps.pool.o.Members.Changed()
		ps.update(ps.pool.o.Members.Members())
		select {
		case <-changed:
		case <-ps.pool.ctx.Done():
			return
		}
	}
}

// update takes in who the members are now.
func (ps *peers) update(now []member.Member) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	here := map[member.ID]bool{}
	for _, m := range now {
		if m.Self || m.ID == ps.pool.o.Node {
			continue
		}
		here[m.ID] = true
		if r := ps.byID[m.ID]; r != nil {
			r.setMember(m)
			continue
		}
		ps.gone = slices.DeleteFunc(ps.gone, func(r *remote) bool { return r.id == m.ID })
		r := ps.newRemote(m)
		if !ps.pool.spawn(r.keep) {
			return
		}
		if ps.byID == nil {
			ps.byID = map[member.ID]*remote{}
		}
		ps.byID[m.ID] = r
		if len(ps.numbered) < numberMax {
			ps.numbered = append(ps.numbered, r)
			r.number = uint16(len(ps.numbered))
		}
	}
	for id, r := range ps.byID {
		if here[id] {
			continue
		}
		delete(ps.byID, id)
		if r.number > 0 {
			ps.numbered[r.number-1] = nil
		}
		r.leave()
		ps.gone = append(ps.gone, r)
		ps.gone = ps.gone[max(0, len(ps.gone)-goneMax):]
	}
}

// all are the other members, by rising ID.
func (ps *peers) all() []*remote {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	list := make([]*remote, 0, len(ps.byID))
	for _, r := range ps.byID {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *remote) int { return slices.Compare(a.id[:], b.id[:]) })
	return list
}

// usable are those that can be asked for blocks now, by rising ID.
func (ps *peers) usable() []*remote {
	return slices.DeleteFunc(ps.all(), func(r *remote) bool { return !r.usable() })
}

// byNumber are usable members by their numbers.
type byNumber map[uint16]*remote

// reachable are those that can be asked for blocks now.
func (ps *peers) reachable() byNumber {
	all := byNumber{}
	for _, r := range ps.all() {
		if r.number > 0 && r.usable() {
			all[r.number] = r
		}
	}
	return all
}

// hinted is where a block is remembered to be, on these nodes.
func (now byNumber) hinted(h *hints, id *ID) (at Place) {
	found := h.find(id)
	for i := len(found) - 1; i >= 0; i-- {
		if now[found[i]] != nil {
			at.add(found[i])
		}
	}
	return at
}

// of is the member of this ID; nil if there is none.
func (ps *peers) of(id member.ID) *remote {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byID[id]
}

// Place says where copies of a block are known to be: numbers of members, the one
// found last first. The zero Place is nowhere.
type Place [placeCopies]uint16

// placeCopies is how many copies are remembered: one to ask, one to ask when it is slow.
const placeCopies = 2

// Known reports whether a copy is known at all.
func (at Place) Known() bool { return at[0] != 0 }

// add puts a copy first; the last one of too many goes.
func (at *Place) add(number uint16) {
	if number == 0 || slices.Contains(at[:], number) {
		return
	}
	copy(at[1:], at[:])
	at[0] = number
}

// remove takes a copy out, and reports whether it was there.
func (at *Place) remove(number uint16) bool {
	i := slices.Index(at[:], number)
	if i < 0 || number == 0 {
		return false
	}
	copy(at[i:], at[i+1:])
	at[placeCopies-1] = 0
	return true
}

// Nodes are the members that a place names, in its order, without those that have gone.
func (p *Pool) Nodes(at Place) []member.Member {
	var nodes []member.Member
	p.peers.mu.Lock()
	defer p.peers.mu.Unlock()
	for _, number := range at {
		if number > 0 {
			if r := p.peers.numbered[number-1]; r != nil {
				nodes = append(nodes, r.described())
			}
		}
	}
	return nodes
}
