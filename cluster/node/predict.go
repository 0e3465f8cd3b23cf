package node

import (
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/prefetch"
)

// Predictors of Options.Prefetch.
const (
	PrefetchNone   = "none"
	PrefetchWindow = "window"
	PrefetchModel  = "model"
)

// newPredictor makes the one of this name; nil for none. ok is false for no name of one.
func newPredictor(name string) (p prefetch.Predictor, ok bool) {
	switch name {
	case PrefetchWindow:
		return prefetch.NewWindow(0, 0), true
	case PrefetchModel:
		return prefetch.NewModel(0), true
	}
	return nil, name == PrefetchNone
}

const (
	// seenMax bounds the requests that wait to be told to the predictor; it never hears
	// of those beyond.
	seenMax = 256
	// seenBytesMax bounds the keys in them, unless there is but one.
	seenBytesMax   = 16 << 20
	keyHeaderBytes = 24 // of a slice
	// tickTime is how often the predictor is asked.
	tickTime = 250 * time.Millisecond
	// aheadShare is the part of the memory tier for what the predictor wants.
	aheadShare = 0.9
	// backlogTime is how much is queued for a drive at most, in time at its rate, so
	// that what the predictor wants most need not wait long; backlogBlocks at least.
	backlogTime   = time.Second
	backlogBlocks = 16
)

// predicting tells a predictor what clients do, and fetches what it wants. One
// goroutine, run, has the predictor.
type predicting struct {
	ahead     *prefetcher
	predictor prefetch.Predictor
	seen      chan seenBySpace
	seenBytes atomic.Int64  // of keys that wait in seen
	missed    atomic.Uint64 // requests that it has not heard of
	spaces    map[uint32]*space
}

type seenBySpace struct {
	space *space
	bytes int64 // of the keys
	prefetch.Seen
}

// see tells of a request; it waits for nothing. The keys may be changed afterwards.
func (p *predicting) see(kind prefetch.Kind, s *space, reader uint64, keys []engine.Key, depth int) {
	if p == nil || len(keys) == 0 {
		return
	}
	total := 0
	for _, k := range keys {
		total += len(k.Bytes)
	}
	size := int64(total) + int64(len(keys))*keyHeaderBytes
	if waiting := p.seenBytes.Add(size); waiting > max(seenBytesMax, size) {
		p.seenBytes.Add(-size)
		p.missed.Add(1)
		return
	}
	all, own := make([]byte, 0, total), make([][]byte, len(keys))
	for i, k := range keys {
		from := len(all)
		all = append(all, k.Bytes...)
		own[i] = all[from:len(all):len(all)]
	}
	select {
	case p.seen <- seenBySpace{s, size, prefetch.Seen{Kind: kind, Space: uint32(s.number), Group: keys[0].Group, Reader: reader, Keys: own,
		Depth: depth, BlockBytes: s.blockBytes, Now: time.Since(p.ahead.node.started)}}:
	default:
		p.seenBytes.Add(-size)
		p.missed.Add(1)
	}
}

// run works until the prefetcher is stopped.
func (p *predicting) run() {
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for {
		select {
		case s := <-p.seen:
			p.spaces[s.Space] = s.space
			p.fetch(p.predictor.Saw(s.Seen), true)
			p.seenBytes.Add(-s.bytes)
		case <-ticker.C:
			budget := int64(aheadShare * float64(p.ahead.node.memory.Facts().Bytes))
			wants, spent := p.predictor.Tick(time.Since(p.ahead.node.started), budget, p.roomBytes())
			p.spend(spent)
			p.fetch(wants, false)
		case <-p.ahead.over:
			return
		}
	}
}

// roomBytes is how much more may be queued.
func (p *predicting) roomBytes() int64 {
	most, largest := int64(0), 0
	for _, s := range p.spaces {
		largest = max(largest, s.blockBytes)
	}
	for _, d := range p.ahead.node.drives {
		most += max(d.readIn(backlogTime), int64(backlogBlocks*largest))
	}
	return max(0, most-p.ahead.stat().Bytes)
}

func (p *predicting) fetch(wants []prefetch.Want, soon bool) {
	for _, w := range wants {
		if s := p.spaces[w.Space]; s != nil {
			p.ahead.begin(s, engineKeys(w.Group, w.Keys), uint32(w.Depth), w.Plan.Stands, soon)
		}
	}
}

// spend lets blocks go before others.
func (p *predicting) spend(wants []prefetch.Want) {
	for _, w := range wants {
		if s := p.spaces[w.Space]; s != nil {
			for _, v := range s.versions(engineKeys(w.Group, w.Keys)) {
				p.ahead.node.memory.Spend(v)
			}
		}
	}
}

func engineKeys(group uint32, keys [][]byte) []engine.Key {
	all := make([]engine.Key, len(keys))
	for i, k := range keys {
		all[i] = engine.Key{Group: group, Bytes: k}
	}
	return all
}
