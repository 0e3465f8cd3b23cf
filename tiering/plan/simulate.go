package plan

import (
	"context"

	"github.com/spillway-kv/spillway/engine/evict"
)

// Admission says which blocks of a request are stored.
type Admission uint8

const (
	// FullBlocks: all but a last block that is not full. What is here all the same is
	// touched. The daemon's default.
	FullBlocks Admission = iota
	// AllBlocks stores everything.
	AllBlocks
	// NotLast stores no request's last block, full or not.
	NotLast
)

// Config is one simulation.
type Config struct {
	Policy    string // one of Policies
	Capacity  int    // blocks
	Admission Admission
	// HeadFirst applies a request's blocks from the root on, which no store does.
	HeadFirst bool
	// RestartMS, when positive, closes and opens the store at that time of the trace.
	RestartMS int64
}

// Row is what came of a Config.
type Row struct {
	Config
	References int
	Hits       int // present at the request's start
	PrefixHits int // present with all blocks before them
	Writes     int // blocks stored
	Minutes    []Minute
}

// Minute is a minute of a Row.
type Minute struct {
	References, Hits, PrefixHits, Writes int
}

// HitRatio is hits per reference.
func (r *Row) HitRatio() float64 { return ratio(r.Hits, r.References) }

// PrefixHitRatio is prefix hits per reference.
func (r *Row) PrefixHitRatio() float64 { return ratio(r.PrefixHits, r.References) }

// WritesPerRef is blocks stored per reference.
func (r *Row) WritesPerRef() float64 { return ratio(r.Writes, r.References) }

// WritesPerHit is blocks written for each prefix hit.
func (r *Row) WritesPerHit() float64 { return ratio(r.Writes, r.PrefixHits) }

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

const minuteMS = 60_000

// Simulate runs one configuration over the trace. Of each request the whole chain is
// looked up first; then its blocks are touched or stored, tail first. The error is
// the context's, or says which policy there is not.
func Simulate(ctx context.Context, t *Trace, c Config) (*Row, error) {
	store, err := newCache(c.Policy, t, c.Capacity)
	if err != nil {
		return nil, err
	}
	defer func() { store.close() }()
	row := &Row{Config: c, Minutes: make([]Minute, t.SpanMS()/minuteMS+1)}
	restarted := c.RestartMS <= 0
	for r := range t.Requests() {
		if r%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		nowMS := t.timesMS[r] - t.timesMS[0]
		if !restarted && nowMS >= c.RestartMS {
			restarted = true
			if err := store.restart(nowMS * 1e6); err != nil {
				return nil, err
			}
		}
		if f, ok := store.(*future); ok {
			f.begin(r)
		}
		m := &row.Minutes[nowMS/minuteMS]
		chain := t.chain(r)
		look(store, chain, m)
		apply(store, chain, t.endsPartial(r), nowMS*1e6, c, m)
	}
	for _, m := range row.Minutes {
		row.References += m.References
		row.Hits += m.Hits
		row.PrefixHits += m.PrefixHits
		row.Writes += m.Writes
	}
	return row, nil
}

// look counts what is here of a request.
func look(store cache, chain []uint32, m *Minute) {
	m.References += len(chain)
	whole := true
	for _, b := range chain {
		here := store.has(b)
		whole = whole && here
		if here {
			m.Hits++
		}
		if whole {
			m.PrefixHits++
		}
	}
}

// apply touches and stores a request's blocks.
func apply(store cache, chain []uint32, partial bool, nowNS int64, c Config, m *Minute) {
	last := len(chain) - 1
	for n := range chain {
		i := last - n
		if c.HeadFirst {
			i = n
		}
		a := evict.Access{NowNS: nowNS, Depth: uint32(i), Behind: uint32(last - i), Partial: partial && i == last}
		if !c.HeadFirst && i < last {
			a.Next = store.handle(chain[i+1])
		} else if c.HeadFirst && i > 0 {
			a.Previous = store.handle(chain[i-1])
		}
		switch {
		case store.has(chain[i]):
			store.touch(chain[i], a)
		case i == last && (c.Admission == NotLast || c.Admission == FullBlocks && partial):
		case store.add(chain[i], a):
			m.Writes++
		}
	}
}
