package node

import (
	"bytes"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

const (
	// fetchesMax bounds the blocks that wait to be fetched ahead or are under way.
	fetchesMax = 1 << 16
	// fetchWorkers is how many chunks a drive is asked for at once, fetchTime how
	// long one may wait for its turn: after that its reader has come or will not.
	fetchWorkers = 4
	fetchTime    = 10 * time.Second
)

// fetch is one block to be read into memory ahead of its reader.
type fetch struct {
	space   *space
	key     engine.Key
	version engine.Version
	depth   uint32
	until   time.Time
	wanted  func() bool // nil: until then
}

// prefetcher reads blocks into the memory tier, at the lowest priority. Whatever stands
// in the way of one, a bound, the drive or its age, only means that it is not fetched.
type prefetcher struct {
	node *Node
	over chan struct{}
	wg   sync.WaitGroup // workers; they live while there is something to fetch

	mu      sync.Mutex
	stopped bool
	queues  map[*drive]*fetchQueue
	workers map[*drive]int
	pending map[engine.Version]bool // waiting or under way; false: given up
	bytes   int64                   // of pending
	counts  PrefetchStat
}

// fetchQueue is what waits for a drive: what a reader needs next, and what one may need
// some time, each in the order of its asking.
type fetchQueue struct{ soon, later []fetch }

// PrefetchStat counts blocks that were to be fetched ahead.
type PrefetchStat struct {
	Asked     uint64 `json:"asked"`     // by clients and the predictor, absent ones included
	Here      uint64 `json:"here"`      // of those, in memory already
	Absent    uint64 `json:"absent"`    // of those, in no store
	Begun     uint64 `json:"begun"`     // of those, queued
	Refused   uint64 `json:"refused"`   // of those, too many were waiting
	Read      uint64 `json:"read"`      // of those begun, read into memory
	Cancelled uint64 `json:"cancelled"` // of those begun, given up: not wanted any more, waited too long, no room, or gone
	Unheard   uint64 `json:"unheard"`   // requests that the predictor has not heard of: it was busy
	Predictor string `json:"predictor"` // none, window or model
	Waiting   int    `json:"waiting"`   // waiting or under way
	Bytes     int64  `json:"bytes"`     // of those
}

func newPrefetcher(n *Node) *prefetcher {
	return &prefetcher{node: n, over: make(chan struct{}), queues: map[*drive]*fetchQueue{}, workers: map[*drive]int{},
		pending: map[engine.Version]bool{}}
}

// prefetch serves a Prefetch: it answers at once how many blocks will be fetched.
func (c *conn) prefetch(m *wire.KeyList) (wire.Message, error) {
	s, keys, err := c.asked(m.Namespace, m.Group, m.Keys)
	if err != nil {
		return nil, err
	}
	if c.node.ahead == nil {
		return nil, &wire.ErrorAnswer{Code: wire.CodeUnsupported, Text: "this daemon has no memory to prefetch into",
			Remedy: "set memory.dram_bytes in its configuration"}
	}
	return wire.Number(c.node.ahead.begin(s, keys, 0, nil, true)), nil
}

// begin queues the blocks that a store has and memory has not, given in the order of
// their chain from depth on, and returns how many. wanted, asked again before each is
// read, says whether it still is; nil: it is. soon lets them go before what may be needed
// some time.
func (p *prefetcher) begin(s *space, keys []engine.Key, depth uint32, wanted func() bool, soon bool) (begun int) {
	versions := s.versions(keys)
	until := time.Now().Add(fetchTime)
	for i, v := range versions {
		switch {
		case v.Position == 0:
			p.count(&p.counts.Absent)
		case p.node.memory.Keep(v):
			p.count(&p.counts.Here)
		default:
			k := engine.Key{Group: keys[i].Group, Bytes: bytes.Clone(keys[i].Bytes)}
			if p.queue(fetch{s, k, v, depth + uint32(i), until, wanted}, soon) {
				begun++
			}
		}
	}
	return begun
}

func (p *prefetcher) count(of *uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Asked++
	*of++
}

// queue takes one block in, unless it is queued already or there are too many.
func (p *prefetcher) queue(f fetch, soon bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Asked++
	if _, double := p.pending[f.version]; double {
		p.counts.Here++
		return false
	}
	size := int64(f.space.blockBytes)
	if p.stopped || len(p.pending) >= fetchesMax || p.bytes+size > p.node.memory.Facts().Bytes {
		p.counts.Refused++
		return false
	}
	p.pending[f.version] = true
	p.bytes += size
	p.counts.Begun++
	part := f.space.part(f.key)
	q := p.queues[part.drive]
	if q == nil {
		q = &fetchQueue{}
		p.queues[part.drive] = q
	}
	if soon {
		q.soon = append(q.soon, f)
	} else {
		q.later = append(q.later, f)
	}
	if p.workers[part.drive] < fetchWorkers {
		p.workers[part.drive]++
		p.wg.Go(func() { p.work(part.drive) })
	}
	return true
}

// tooSlow gives up the blocks that their reader reads himself now, of those with a
// position.
func (p *prefetcher) tooSlow(items []memory.Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 {
		return
	}
	for i := range items {
		if v := items[i].Version; !items[i].Block.Valid() && p.pending[v] {
			p.pending[v] = false
		}
	}
}

func (p *prefetcher) stands(v engine.Version) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[v]
}

// stop ends all fetching and waits for it.
func (p *prefetcher) stop() {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.over)
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *prefetcher) stat() PrefetchStat {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.counts
	st.Waiting, st.Bytes = len(p.pending), p.bytes
	if st.Predictor = PrefetchNone; p.node.predicting != nil {
		st.Predictor, st.Unheard = p.node.predicting.predictor.Name(), p.node.predicting.missed.Load()
	}
	return st
}
