package prefetch

import (
	"slices"
	"time"
)

// Model wants whole chains ahead of their next turn: those that are likeliest to come
// back soon, as many as the memory holds. It learns, from all chains together, at what
// rate they come back after how long a wait, and how far from the root they are read.
type Model struct {
	tree    *tree
	returns returns
	// skip is the part of a chain, from its root, that is not read when it comes back
	// (its client has that still), averaged; reads the part of returns that read at all.
	skip, reads float64
	ranked      []rankedChain // reused
}

type rankedChain struct {
	c     *chain
	score float64
}

const (
	// turnGap is how long a chain must have been quiet before it counts as coming back.
	turnGap = 500 * time.Millisecond
	// rateMin: a chain that comes back more rarely, per second, is not worth fetching.
	rateMin = 1e-4
	// stay is how much likelier than it is a chain counts that is in memory already, so
	// that two of about the same do not take turns there.
	stay = 1.25
	// again is after what time what was asked for is asked for anew: it may not have
	// been fetched, or had to go.
	again = 20 * time.Second
	// rankedMax is how many chains are ranked, those used last: a rank costs some
	// milliseconds.
	rankedMax = 1 << 14
	// learnShare is the weight of one observation in an average.
	learnShare = 0.02
)

// NewModel makes a model that remembers so many blocks; 0: BlocksMax.
func NewModel(blocksMax int) *Model {
	if blocksMax == 0 {
		blocksMax = BlocksMax
	}
	return &Model{tree: newTree(blocksMax), reads: 1}
}

// Name implements Predictor.
func (m *Model) Name() string { return "model" }

// Saw implements Predictor. Of a chain that is being read it wants what a Window does.
func (m *Model) Saw(s Seen) []Want {
	first, last, c := m.tree.follow(&s)
	if c == nil {
		return nil
	}
	if s.Kind != Stored && s.Now-c.last >= turnGap {
		m.returns.back(c, s.Now)
		if c.turns > 0 {
			m.learn(&m.reads, c.reading, 1)
		}
		c.gap = s.Now - c.last
		c.turns++
		c.reading = false
		c.unplan()
	}
	if s.Kind == Read && !c.reading {
		c.reading = true
		m.learn(&m.skip, true, float64(first.depth)/float64(c.length()))
	}
	c.last, c.counted = s.Now, s.Now
	if s.Kind != Read {
		return nil
	}
	return last.ahead(&s, WindowBlocks)
}

// learn moves an average towards what was seen; towards 0 if it was not.
func (m *Model) learn(average *float64, seen bool, value float64) {
	if !seen {
		value = 0
	}
	*average += learnShare * (value - *average)
}

func (c *chain) unplan() {
	c.plan.end()
	c.plan, c.upto = nil, 0
}

// Tick implements Predictor.
func (m *Model) Tick(now time.Duration, budgetBytes, roomBytes int64) (wants, spent []Want) {
	m.rank(now)
	for i := range m.ranked {
		c := m.ranked[i].c
		from := int(m.skip * float64(c.length()))
		size := int64(c.length()-from) * int64(c.blockBytes)
		if m.ranked[i].score < rateMin || size > budgetBytes {
			if w, was := c.giveUp(); was {
				spent = append(spent, w)
			}
			continue
		}
		budgetBytes -= size
		if c.plan == nil || now-c.planned > again {
			c.plan.end()
			c.plan, c.from, c.upto, c.planned = &Plan{}, from, from, now
		}
		if n := min(int(roomBytes/int64(c.blockBytes)), c.length()-c.upto); n > 0 {
			keys, depth := c.keys(c.upto, c.upto+n)
			c.upto += n
			roomBytes -= int64(n) * int64(c.blockBytes)
			wants = append(wants, Want{c.space, c.group, keys, depth, c.plan})
		}
	}
	return wants, spent
}

// giveUp ends a chain's plan and names what was fetched for it.
func (c *chain) giveUp() (spent Want, was bool) {
	if c.plan == nil {
		return spent, false
	}
	keys, depth := c.keys(c.from, c.upto)
	c.unplan()
	return Want{Space: c.space, Group: c.group, Keys: keys, Depth: depth}, len(keys) > 0
}

// rank sorts the chains, the likeliest to come back and read first.
func (m *Model) rank(now time.Duration) {
	m.ranked = m.ranked[:0]
	for c := m.tree.ends.older; c != &m.tree.ends && len(m.ranked) < rankedMax; c = c.older {
		if now-c.last < turnGap {
			continue // its turn is under way
		}
		m.returns.wait(c, now)
		score := m.returns.rate(c, now) * m.reads
		if c.plan != nil {
			score *= stay
		}
		m.ranked = append(m.ranked, rankedChain{c, score})
	}
	slices.SortStableFunc(m.ranked, func(a, b rankedChain) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
}
