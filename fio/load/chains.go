package load

import "slices"

const requestsMaxDefault = 256

// Chains turns requests into ops on blocks. A request's reads go from the root
// to the first block that is not there, as many at once as the worker begins;
// then the other blocks are put, the tail first, so that a leaf is older than its
// parent. A partial last block is left out, as engines do. The first op of a
// request has its intended start; the others are due as soon as they can begin,
// and OnLoad tells how long the whole prefix took.
//
// Reads go first, then requests that are due begin, then come puts: an engine's
// puts wait, its loads do not. A request without a start of its own begins when
// nothing else can be done. RequestsMax bounds those under way; at the bound the
// next one begins late.
type Chains struct {
	feed       Feed
	config     ChainConfig
	active     []*chain // by age
	slots      []*chain // all that were ever made, by their tag
	free       []*chain
	next       *chain   // from the feed, not yet begun; nil: ask it
	feedWakeNS int64    // of the feed's last Wait, if next is nil
	ended      bool     // the feed
	held       []uint64 // by slot: the block there, plus 1; empty: the target knows
	report     Load     // for OnLoad
}

// chain is one request under way.
type chain struct {
	Request
	slot    int
	first   bool    // no op was handed out yet
	next    int     // depth of the next read
	prefix  int     // the depth before which all blocks may be there
	reading int     // reads in flight
	endNS   []int64 // of the reads, by depth
	loaded  bool    // the reads are over: blocks before prefix are there
	putNS   int64   // when the puts may begin, once loaded
	puts    int     // not yet handed out; the next has depth prefix+puts-1
	writing int     // puts in flight
}

// NewChains makes ops of the feed's requests.
func NewChains(feed Feed, c ChainConfig) *Chains {
	if c.RequestsMax <= 0 {
		c.RequestsMax = requestsMaxDefault
	}
	return &Chains{feed: feed, config: c, held: make([]uint64, c.Slots)}
}

// Err is why the requests ended early, nil if they did not.
func (s *Chains) Err() error { return s.feed.Err() }

// Next answers a read or a write of one block.
func (s *Chains) Next(nowNS int64, op *Op) Answer {
	for {
		if c := s.readable(); c != nil {
			s.read(c, nowNS, op)
			return Ready
		}
		s.ask(nowNS)
		room := s.next != nil && len(s.active) < s.config.RequestsMax
		if room && s.next.StartNS != AtOnce && s.next.StartNS <= nowNS {
			s.begin(nowNS)
			continue
		}
		c, wakeNS := s.puttable(nowNS)
		if c != nil {
			s.write(c, op)
			return Ready
		}
		if room && s.next.StartNS == AtOnce {
			s.begin(nowNS)
			continue
		}
		switch {
		case room:
			wakeNS = earlier(wakeNS, s.next.StartNS)
		case s.next == nil && !s.ended:
			wakeNS = earlier(wakeNS, s.feedWakeNS)
		case s.next == nil && len(s.active) == 0:
			return End
		}
		op.IntendedNS = wakeNS
		return Wait
	}
}

// earlier is the earlier of two times to ask again, where AtOnce is none.
func earlier(a, b int64) int64 {
	if a == AtOnce || b != AtOnce && b < a {
		return b
	}
	return a
}

// readable is the oldest request with a read to hand out, or nil.
func (s *Chains) readable() *chain {
	for _, c := range s.active {
		if !c.loaded && c.next < c.prefix {
			return c
		}
	}
	return nil
}

// puttable is the oldest request with a put that is due; without one it is nil,
// and wakeNS when the first one is.
func (s *Chains) puttable(nowNS int64) (due *chain, wakeNS int64) {
	wakeNS = AtOnce
	for _, c := range s.active {
		if !c.loaded || c.puts == 0 {
			continue
		}
		if c.putNS <= nowNS {
			return c, AtOnce
		}
		wakeNS = earlier(wakeNS, c.putNS)
	}
	return nil, wakeNS
}

// ask gets the next request from the feed if there is none yet.
func (s *Chains) ask(nowNS int64) {
	if s.next != nil || s.ended {
		return
	}
	c := s.take()
	c.Request = Request{Blocks: c.Blocks[:0]}
	switch s.feed.NextRequest(nowNS, &c.Request) {
	case Ready:
		s.next = c
		return
	case Wait:
		s.feedWakeNS = c.StartNS
	case End:
		s.ended = true
	}
	s.free = append(s.free, c)
}

func (s *Chains) take() *chain {
	if last := len(s.free) - 1; last >= 0 {
		c := s.free[last]
		s.free = s.free[:last]
		return c
	}
	c := &chain{slot: len(s.slots)}
	s.slots = append(s.slots, c)
	return c
}

// begin makes the next request one under way, or ends it if it has no full block.
func (s *Chains) begin(nowNS int64) {
	c := s.next
	s.next = nil
	if t := s.config.TokensPerBlock; t > 0 && c.InputTokens > 0 && len(c.Blocks) == c.InputTokens/t+1 {
		c.Blocks = c.Blocks[:len(c.Blocks)-1] // the last one is partial
	}
	n := len(c.Blocks)
	c.first, c.next, c.prefix, c.reading = true, 0, n, 0
	c.endNS = slices.Grow(c.endNS[:0], n)[:n]
	c.loaded, c.putNS, c.puts, c.writing = false, 0, 0, 0
	s.active = append(s.active, c)
	if c.Mode == PutOnly {
		c.loaded, c.prefix, c.puts, c.putNS = true, 0, n, nowNS
		s.settle(c, nowNS)
		return
	}
	if len(s.held) > 0 && c.Mode == LoadThenPut {
		c.prefix = s.heldPrefix(c.Blocks)
	}
	if c.prefix == 0 {
		s.load(c, nowNS)
	}
}

// heldPrefix is how many blocks of a chain, from its root, were put and not
// written over.
func (s *Chains) heldPrefix(blocks []uint64) int {
	for i, b := range blocks {
		if s.held[b%s.config.Slots] != b+1 {
			return i
		}
	}
	return len(blocks)
}

func (s *Chains) read(c *chain, nowNS int64, op *Op) {
	s.fill(c, op, Read, c.next)
	if c.StartNS == AtOnce {
		c.StartNS = nowNS // for the report
	}
	c.next++
	c.reading++
}

func (s *Chains) write(c *chain, op *Op) {
	c.puts--
	c.writing++
	s.fill(c, op, Write, c.prefix+c.puts)
}

func (s *Chains) fill(c *chain, op *Op, kind Kind, depth int) {
	*op = Op{
		Kind: kind, Namespace: uint16(s.config.Namespace), Depth: uint32(depth), Bytes: s.config.BlockBytes,
		Offset: Anywhere, Block: c.Blocks[depth], IntendedNS: AtOnce, Tag: uint64(c.slot), Chain: uint32(c.slot) + 1,
	}
	if c.first {
		c.first, op.IntendedNS = false, c.StartNS
	}
}

// Done brings the op's request on.
func (s *Chains) Done(op *Op, outcome Outcome, nowNS int64) {
	c := s.slots[op.Tag]
	if op.Kind == Write {
		if outcome == OK && len(s.held) > 0 {
			s.held[op.Block%s.config.Slots] = op.Block + 1
		}
		c.writing--
		s.settle(c, nowNS)
		return
	}
	c.reading--
	c.endNS[op.Depth] = nowNS
	if outcome != OK {
		c.prefix = min(c.prefix, int(op.Depth))
	}
	if c.reading == 0 && c.next >= c.prefix {
		s.load(c, nowNS)
	}
}

// load ends the load of a request, whose reads are over.
func (s *Chains) load(c *chain, nowNS int64) {
	l := &s.report
	*l = Load{
		Namespace: s.config.Namespace, Blocks: len(c.Blocks), Loaded: c.prefix, Prefix: c.Blocks[:c.prefix], BlockBytes: s.config.BlockBytes,
		LoadedBytes: int64(c.prefix) * int64(s.config.BlockBytes),
		InputTokens: c.InputTokens, StartNS: c.StartNS,
	}
	if c.InputTokens > 0 {
		l.LoadedTokens = c.prefix * s.config.TokensPerBlock
	}
	if c.StartNS == AtOnce {
		l.StartNS = nowNS
	}
	l.EndNS = l.StartNS
	for _, endNS := range c.endNS[:c.prefix] {
		l.EndNS = max(l.EndNS, endNS)
	}
	if s.config.OnLoad != nil {
		s.config.OnLoad(l)
	}
	c.loaded = true
	c.putNS = nowNS + int64(s.config.PrefillNS*float64(max(0, c.InputTokens-l.LoadedTokens)))
	if c.Mode == LoadThenPut {
		c.puts = len(c.Blocks) - c.prefix
	}
	s.settle(c, nowNS)
}

// settle ends a request that has nothing left to do.
func (s *Chains) settle(c *chain, nowNS int64) {
	if !c.loaded || c.puts > 0 || c.writing > 0 {
		return
	}
	at := slices.Index(s.active, c)
	s.active = slices.Delete(s.active, at, at+1)
	s.free = append(s.free, c)
	s.feed.EndRequest(c.Session, max(nowNS, c.putNS+int64(s.config.DecodeNS*float64(c.OutputTokens))))
}
