package node

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/worth"
)

// space is one namespace over all stores of the node. A key has its home on one of
// them, chosen by weighted rendezvous: each store draws a number from the key, and
// the highest wins. So a store that comes or goes moves only its own keys, which are
// misses then.
type space struct {
	id             [32]byte
	name           string
	blockBytes     int
	tokensPerBlock int // 0: unknown
	number         int // in the order of opening, from 1
	parts          []part
	counters       spaceCounters
	judge          worth.Judge // of loading against computing
	descriptor     engine.Descriptor
	compute        atomic.Pointer[compute] // what computing its blocks takes
}

// part is a space on one store.
type part struct {
	ns     *engine.Namespace
	store  *engine.Store
	drive  *drive
	flow   *flow
	writes *admit.Share // of the drive's budget
	seed   uint64       // of the store, for the draw
	size   float64      // of the store, its weight
}

// spaceCounters count keys, not requests.
type spaceCounters struct {
	hits, misses, late, busy, stored, present, dropped atomic.Uint64
	latePuts                                           atomic.Uint64
	refused                                            [admit.QueueFull + 1]atomic.Uint64 // of dropped, by reason
	declined                                           atomic.Uint64                      // found, and answered as absent because computing is quicker
	memoryHits                                         atomic.Uint64                      // of hits, from memory
	remoteHits                                         atomic.Uint64                      // of hits, from other nodes
	remoteStored                                       atomic.Uint64                      // of stored, by other nodes and not here
	prefixHits                                         atomic.Uint64                      // hits with all before them in the request hit
	readBytes, writtenBytes                            atomic.Uint64
}

// home is the part that key belongs to.
func (s *space) home(group uint32, key []byte) int {
	if len(s.parts) == 1 {
		return 0
	}
	best, score := 0, math.Inf(-1)
	for i := range s.parts {
		p := &s.parts[i]
		h := xxh3.HashSeed(key, p.seed^uint64(group)*0x9e3779b97f4a7c15)
		u := (float64(h>>11) + 0.5) / (1 << 53) // in (0, 1)
		if draw := -p.size / math.Log(u); draw > score {
			best, score = i, draw
		}
	}
	return best
}

// part is the one that a key belongs to.
func (s *space) part(k engine.Key) *part { return &s.parts[s.home(k.Group, k.Bytes)] }

// split sorts the indices of keys by the keys' homes.
func (s *space) split(keys []engine.Key) [][]int {
	homes := make([][]int, len(s.parts))
	for i, k := range keys {
		h := s.home(k.Group, k.Bytes)
		homes[h] = append(homes[h], i)
	}
	return homes
}

// spacesMax bounds the namespaces that a node opens. Stores keep each for ever.
const spacesMax = 1024

// openSpace opens a namespace on every store.
func (n *Node) openSpace(d engine.Descriptor, token string) (*space, error) {
	o := n.options.Load()
	rule, listed := o.Namespaces[d.Name]
	if o.OnlyListed && !listed {
		return nil, fmt.Errorf("%w: namespace %q is not listed in the daemon's configuration", errDenied, d.Name)
	}
	if !sameSecret(rule.Token, token) {
		return nil, fmt.Errorf("%w: namespace %q wants another token", errDenied, d.Name)
	}
	return n.open(d)
}

// open is openSpace for those who have shown that they may.
func (n *Node) open(d engine.Descriptor) (*space, error) {
	id, err := d.ID()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrConfig, err)
	}
	if s, _ := n.openedSpace(id); s != nil {
		return s, nil
	}
	n.opening.Lock()
	defer n.opening.Unlock()
	s, opened := n.openedSpace(id)
	if s != nil {
		return s, nil
	}
	if opened >= spacesMax {
		return nil, limit(fmt.Sprintf("%d namespaces have been opened since the daemon's start, which is the limit", opened), "drop those that are of no use any more, and start the daemon anew")
	}
	rule := n.options.Load().Namespaces[d.Name]
	s = &space{id: id, name: d.Name, descriptor: d, blockBytes: d.BlockBytes, tokensPerBlock: d.TokensPerBlock, number: opened + 1}
	for i, store := range n.stores {
		ns, err := store.Namespace(d)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, part{ns: ns, store: store, drive: n.drives[i], flow: &flow{weight: float64(max(rule.Share, 1))},
			seed: n.seeds[i], size: n.sizes[i]})
	}
	if n.pool != nil { // its IDs are the same on all stores, as on all nodes
		if err := s.raise(max(s.incarnation(), n.pool.Floor(id))); err != nil {
			return nil, err
		}
	}
	s.compute.Store(n.options.Load().computeOf(&d))
	if err := s.setQuota(rule.QuotaBytes); err != nil {
		return nil, err
	}
	for i := range s.parts { // nothing fails any more: a share stays for ever
		s.parts[i].writes = n.drives[i].budget.NewShare(n.options.Load().writeShare(d.Name))
	}
	n.events.mu.Lock()
	for i := range s.parts {
		n.events.spaces[s.parts[i].ns] = s
	}
	n.events.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spaces[id] = s
	return s, nil
}

// openedSpace is the space of this ID, nil if it is not open, and how many are.
func (n *Node) openedSpace(id [32]byte) (s *space, opened int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.spaces[id], len(n.spaces)
}

// setQuota bounds the space over all stores, as NamespaceRule.QuotaBytes says.
func (s *space) setQuota(bytes int64) error {
	var errs []error
	for i := range s.parts {
		errs = append(errs, setPartQuota(s.parts[i].ns, bytes, len(s.parts)))
	}
	return errors.Join(errs...)
}

// setPartQuota bounds what one of so many stores keeps of a namespace.
func setPartQuota(ns *engine.Namespace, bytes int64, stores int) error {
	if bytes == 0 {
		return nil
	}
	if bytes = max(bytes, 0) / int64(stores); ns.Stat().QuotaBytes == bytes {
		return nil
	}
	return ns.SetQuota(bytes)
}

// drop drops the namespace on every store.
func (s *space) drop() error {
	var errs []error
	for i := range s.parts {
		errs = append(errs, s.parts[i].ns.Drop())
	}
	return errors.Join(errs...)
}
