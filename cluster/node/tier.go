package node

import (
	"github.com/spillway-kv/spillway/tiering/arena"
)

// startMemory registers the memory tier with the drives and the pool's transport, so that
// reads into it, and what goes from it to peers, cost less, and lets blocks be fetched ahead.
func (n *Node) startMemory() {
	if n.memory == nil {
		return
	}
	for _, s := range n.stores {
		release, err := n.memory.Register(arena.RegistrarFunc(s.RegisterMemory), pinBytes)
		if err != nil {
			n.log.Info("the memory tier is not registered with a drive: reads into it cost more processor time", "store", s.Stat().Dir, "cause", err)
			continue
		}
		n.unpin = append(n.unpin, release)
	}
	if release, err := n.registered.register(n.memory, sources); err != nil {
		n.registered.refuse("the memory tier", n.memory.Facts().Bytes, err)
		n.registered.missing.Add(1)
	} else {
		n.unpin = append(n.unpin, release)
	}
	n.ahead = newPrefetcher(n)
	if predictor, _ := newPredictor(n.options.Load().Prefetch); predictor != nil {
		n.predicting = &predicting{ahead: n.ahead, predictor: predictor, seen: make(chan seenBySpace, seenMax), spaces: map[uint32]*space{}}
		n.ahead.wg.Go(n.predicting.run)
	}
}

// stopMemory ends what startMemory began. No request runs any more.
func (n *Node) stopMemory() {
	if n.memory == nil {
		return
	}
	n.ahead.stop()
	for _, unpin := range n.unpin {
		unpin()
	}
	n.unpin = nil
}

// forget gives the memory of a namespace that was dropped back. Its blocks are not
// answered any more as it is.
func (n *Node) forget(s *space) {
	if n.memory != nil && s != nil {
		n.memory.Purge(uint32(s.number))
	}
}
