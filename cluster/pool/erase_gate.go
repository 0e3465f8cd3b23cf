package pool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
)

// start compares what is known with the stores, and opens the gate when every member that
// can be reached has told what was erased.
func (e *eraser) start() error {
	if err := e.matchStores(); err != nil {
		return err
	}
	e.p.spawn(e.join)
	e.p.spawn(e.compareForEver)
	return nil
}

// matchStores makes floors and stores agree: stores may have been dropped in before there
// was a pool, or may come from elsewhere.
func (e *eraser) matchStores() error {
	var b batch
	foreign := e.foreignStores()
	for _, space := range e.p.local.Spaces() {
		id, at := space.ID(), space.Incarnation()
		e.mu.RLock()
		floor, erased := e.known.floorOf(id), e.known.spaces[id] != nil && len(e.known.spaces[id].clock) > 0
		e.mu.RUnlock()
		switch {
		case at > floor:
			b.floors = append(b.floors, peer.Floor{Namespace: id, Incarnation: at})
		case at < floor:
			if err := space.Raise(floor); err != nil {
				return err
			}
		case foreign && erased:
			if err := space.Clear(); err != nil {
				return err
			}
			e.counts.cleared.Add(1)
		}
	}
	stores := e.storeIDs()
	b.also = func(s *stateFile) { s.stores = stores }
	return e.commit(&b)
}

func (e *eraser) storeIDs() (ids [][16]byte) {
	for _, s := range e.p.o.Erase.Stores {
		ids = append(ids, s.ID)
	}
	return ids
}

// foreignStores reports whether a store with blocks was not there at the latest start:
// what was erased since has not had its effect on it.
func (e *eraser) foreignStores() bool {
	if len(e.state.file.stores) == 0 {
		return false // the first start: whatever is there, all that was ever erased is still to come
	}
	for _, s := range e.p.o.Erase.Stores {
		if !s.Empty && !slices.Contains(e.state.file.stores, s.ID) {
			e.p.o.Journal.Add(journal.Erased, "", "store %x was not here at the latest start: nobody knows what of it was deleted meanwhile, and the node gives up all blocks of namespaces with deletions", s.ID)
			return true
		}
	}
	return false
}

// join opens the gate.
func (e *eraser) join() {
	until := time.NewTimer(e.p.o.Erase.JoinTime)
	defer until.Stop()
	for !e.joined() {
		changed := e.p.o.Members.Changed()
		if e.joined() { // with what changed before
			break
		}
		select {
		case <-e.merged:
			continue
		case <-changed:
			continue
		case <-until.C:
			e.p.o.Journal.Add(journal.Trouble, "", "not every member could be asked what was erased within %v: this node answers without them", e.p.o.Erase.JoinTime)
		case <-e.p.ctx.Done():
			return
		}
		break
	}
	e.open.Store(true)
	close(e.opened)
	e.p.o.Journal.Add(journal.Merged, "", "this node knows what was erased and answers the others")
	e.p.announce()
}

// joined reports whether the node has merged with every member that can be reached. A node
// that has known others before, or has blocks that it knows nothing of, does not believe
// that it is alone.
func (e *eraser) joined() bool {
	alone := true
	for _, m := range e.p.o.Members.Members() {
		if m.Self || m.ID == e.p.o.Node || m.State == member.Leaving {
			continue
		}
		alone = false
		if !m.Suspect && !e.mergedWith(m.ID) {
			return false
		}
	}
	return !alone || !e.pooled()
}

// pooled reports whether the node has ever merged with another, as far as it can tell.
func (e *eraser) pooled() bool {
	e.logging <- struct{}{}
	defer func() { <-e.logging }()
	blocks := slices.ContainsFunc(e.p.o.Erase.Stores, func(s StoreFact) bool { return !s.Empty })
	return e.state.file.pooled || e.state.file.starts == 1 && blocks
}

// compareForEver compares what was erased with every member, over and over, and tells
// them how much room there is.
func (e *eraser) compareForEver() {
	for e.p.sleep(e.p.o.Erase.Every) {
		e.p.announce()
		ctx, cancel := context.WithTimeout(e.p.ctx, mergeTime)
		var all sync.WaitGroup
		for _, r := range e.p.peers.all() {
			if link, _ := r.linked(); link != nil {
				all.Go(func() {
					if err := e.settle(ctx, link); err != nil && ctx.Err() == nil {
						e.p.log.Debug("merge with a member", "peer", r.id, "cause", err)
					}
				})
			}
		}
		all.Wait()
		cancel()
	}
}

// Joined is closed when this node has merged what was erased with every member that it
// could reach, or has waited long enough: from then on it answers peers.
func (p *Pool) Joined() <-chan struct{} { return p.erase.opened }

// announce tells the others how this node is.
func (p *Pool) announce() {
	state := member.Active
	switch {
	case p.erase.leaves.Load():
		state = member.Leaving
	case !p.erase.open.Load():
		state = member.Joining
	case p.Drains():
		state = member.Draining
	}
	capacity, free := p.local.Room()
	p.o.Members.Announce(state, capacity, free)
}

// Drains reports whether the node is to hand its blocks over and leave; it is so over
// restarts.
func (p *Pool) Drains() bool {
	p.erase.logging <- struct{}{}
	defer func() { <-p.erase.logging }()
	return p.erase.state.file.drains
}

// setDrains makes that durable.
func (p *Pool) setDrains(drains bool) error {
	return p.erase.commit(&batch{also: func(s *stateFile) { s.drains = drains }})
}
