// Package prefetch guesses which blocks will be read next, from what was read, stored
// and asked for so far. It moves nothing: whoever asks fetches what it wants, if that
// is in nobody's way.
//
// Blocks are known by the caller's keys. A key names its whole prefix, so the keys of
// all token sequences form a tree, and a chain is the way from its root to a leaf.
//
//	window  the blocks behind the one that was just read, along the likeliest way
//	model   whole chains, before their next turn: when chains come back, and how far
//	        they are read, is learned
package prefetch

import (
	"sync/atomic"
	"time"
)

// Kind says what happened to the blocks of a Seen.
type Kind uint8

// Kinds of events.
const (
	Asked  Kind = iota // whether they are here
	Read               // by a client
	Stored             // by a client
)

// Seen is one request, as the predictor hears of it: some blocks of a chain, in order.
type Seen struct {
	Kind       Kind
	Space      uint32 // number of the namespace
	Group      uint32
	Reader     uint64   // number of the client
	Keys       [][]byte // copied, where they are remembered
	Depth      int      // of the first in its chain, if Kind is Stored
	BlockBytes int
	Now        time.Duration // since any fixed time
}

// Want names blocks of one chain, root first.
type Want struct {
	Space, Group uint32
	Keys         [][]byte
	Depth        int   // of the first
	Plan         *Plan // while it stands, they are wanted
}

// Plan is one guess. It ends when it turns out to be wrong, or is not needed any more.
type Plan struct{ over atomic.Bool }

// Stands reports whether the plan has not ended.
func (p *Plan) Stands() bool { return !p.over.Load() }

func (p *Plan) end() {
	if p != nil {
		p.over.Store(true)
	}
}

// Predictor guesses. Its methods are called by one goroutine at a time, with times
// that do not fall. Its memory is bounded.
type Predictor interface {
	// Name is that of the configuration.
	Name() string
	// Saw hears of a request and returns what to fetch at once, best first.
	Saw(s Seen) []Want
	// Tick, called a few times a second, returns what to fetch now, best first, and
	// what need not stay in memory any longer. budgetBytes is how much memory there is
	// for blocks fetched ahead, roomBytes how much may be fetched for now.
	Tick(now time.Duration, budgetBytes, roomBytes int64) (wants, spent []Want)
}

// BlocksMax is how many blocks' keys a predictor remembers unless told otherwise:
// with keys of 36 bytes about 50 MiB.
const BlocksMax = 1 << 18
