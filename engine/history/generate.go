package history

import (
	"math/rand/v2"
	"time"

	"github.com/spillway-kv/spillway/engine/evict"
)

// Limits narrow what Generate draws. The zero value is the whole range.
type Limits struct {
	Mode       Mode // "" draws one
	NoMeddling bool // no client changes memory that is not its own at the moment
	Calm       bool // nothing that depends on time: one client, no deadlines, no quotas
}

// Generate draws a history from a seed: the same for the same arguments.
func Generate(seed uint64, lim Limits) *History {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x415705)), ids: rand.New(rand.NewPCG(seed, 0x1d5)), lim: lim}
	h := &History{Seed: seed, Mode: lim.Mode}
	if drawn := g.mode(); h.Mode == "" {
		h.Mode = drawn
	}
	g.h = h
	g.config(&h.Config)
	for range 2 + g.rng.IntN(6) {
		h.Lives = append(h.Lives, g.life(len(h.Lives)))
	}
	return h
}

type generator struct {
	rng *rand.Rand
	ids *rand.Rand // which operations go by ID
	lim Limits
	h   *History

	busy       int  // operations per client and life, about
	deadlines  bool // calls have some
	longChains bool
	bounces    int // percent of gets
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.rng.IntN(len(from))] }

// between draws a time from lo to hi.
func (g *generator) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(g.rng.Int64N(int64(hi-lo)+1))
}

func (g *generator) mode() Mode {
	m := pick(g, Calm, Crashes, Crashes, Crashes, Deadlines, Deadlines, Media, Errors, Clients, Lies)
	if m == Clients && g.lim.NoMeddling {
		m = Deadlines
	}
	return m
}

const (
	logFileBytes = 256 << 10 // the smallest, which small stores have
	segmentSmall = 64 << 10
)

// capacityFor is the capacity of a store with room for about so many segments
// of the size that Generate uses.
func capacityFor(segments int) int64 {
	need := int64(6*logFileBytes + 64<<10 + segments*(72<<10))
	return need * 16 / 15
}

func (g *generator) config(c *Config) {
	for n := range 1 + g.rng.IntN(2) {
		block := pick(g, 4096, 4096, 4096, 8192, 5000, 4100)
		c.Spaces = append(c.Spaces, Space{BlockBytes: block, Revision: string(rune('a' + n))})
	}
	if g.lim.Calm {
		c.Spaces = c.Spaces[:1]
	}
	c.SegmentBytes = segmentSmall
	c.Keys = pick(g, 8, 24, 60, 120)
	c.KeyBytes = pick(g, 4, 16, 36, 300, 1000)
	segments := pick(g, 3, 4, 6, 10, 40)
	c.CapacityBytes = capacityFor(segments)
	c.FrameBytes = pick[int64](g, 32<<10, 64<<10, 1<<20)
	c.QueueDepth = 32
	c.SyncInterval = pick(g, 5*time.Millisecond, 50*time.Millisecond, time.Second)
	c.LeaseShare = pick(g, 0.25, 0.25, 0.9)
	names := evict.Names()
	c.Policy = names[g.h.Seed%uint64(len(names))]
	c.AlignBytes = pick(g, 512, 512, 4096)
	c.SectorsUnlike = g.chance(50)
	if g.chance(85) {
		c.LatencyMin = 20 * time.Microsecond
		c.LatencyMax = pick(g, 100*time.Microsecond, 400*time.Microsecond, 3*time.Millisecond)
	}
	if g.h.Mode == Errors && g.chance(30) {
		c.DiskBytes = c.CapacityBytes + int64(g.rng.IntN(300<<10))
	}
	if g.h.Mode == Deadlines && g.chance(60) { // so that slots are used again while slow reads last
		c.CapacityBytes = capacityFor(pick(g, 2, 3))
	}
	g.busy = pick(g, 4, 10, 20, 40)
	if g.chance(30) { // so that the log goes through several of its files
		c.KeyBytes, g.busy = 1000, 40
		c.SyncInterval = pick(g, 5*time.Millisecond, 50*time.Millisecond)
	}
	if g.lim.Calm { // with long keys the index outgrows its room, at a time of its own
		c.KeyBytes = min(c.KeyBytes, 36)
	}
	g.deadlines = g.h.Mode == Deadlines || g.h.Mode == Clients || g.chance(20)
	g.longChains = g.chance(30)
	g.bounces = pick(g, 10, 50)
}

func (g *generator) life(number int) Life {
	l := Life{End: Close, EndDelay: pick(g, 0, 0, 0, g.between(0, 2*time.Millisecond), g.between(0, 60*time.Millisecond)),
		Settled: g.chance(70), KeepPercent: pick(g, 0, 30, 70, 100), Sweep: g.chance(60)}
	if g.h.Mode != Calm && g.chance(75) {
		l.End = pick(g, Kill, PowerCut)
	}
	if number > 0 && g.chance(8) && !g.lim.Calm {
		l.CapacityBytes = capacityFor(pick(g, 3, 4, 6, 10, 40))
	}
	if g.h.Config.DiskBytes > 0 && number > 0 && g.chance(70) {
		l.FillBytes = g.rng.Int64N(g.h.Config.DiskBytes)
	}
	if l.End != Close && g.chance(12) {
		l.DieOpening = g.between(1, 20*time.Millisecond)
	}
	clients := 1 + g.rng.IntN(4)
	if g.lim.Calm {
		clients = 1
	}
	for range clients {
		var ops []Op
		for range 1 + g.rng.IntN(2*g.busy) {
			ops = append(ops, g.op())
		}
		l.Clients = append(l.Clients, ops)
	}
	total := 0
	for _, ops := range l.Clients {
		total += len(ops)
	}
	l.EndAfterOps = total + 1 // when all are done
	if !g.lim.Calm && g.chance(65) {
		l.EndAfterOps = 1 + g.rng.IntN(total)
	}
	g.faults(&l, number)
	return l
}

// op draws one operation of a client.
func (g *generator) op() Op {
	o := Op{Space: g.rng.IntN(len(g.h.Config.Spaces)), Pieces: 1 + g.rng.IntN(3)}
	if g.chance(10) {
		o.Group = 1
	}
	o.From = g.rng.IntN(g.h.Config.Keys)
	if g.chance(50) { // some keys are hotter
		o.From = g.rng.IntN(min(8, g.h.Config.Keys))
	}
	o.Count = 1 + g.rng.IntN(6)
	if g.longChains && g.chance(30) {
		o.Count = 8 + g.rng.IntN(24)
	}
	o.Count = min(o.Count, g.h.Config.Keys)
	if g.chance(50) {
		o.Pause = pick(g, g.between(0, time.Millisecond), g.between(0, time.Millisecond),
			g.between(0, 30*time.Millisecond), g.between(0, time.Second))
	}
	if g.chance(40) {
		o.Layout = 1 + g.rng.Uint64N(1000)
	}
	switch n := g.rng.IntN(100); {
	case n < 38:
		g.put(&o)
	case n < 70:
		g.get(&o)
	case n < 80:
		o.Kind = Match
		o.Lease = pick(g, 0, g.between(0, 50*time.Millisecond), g.between(0, 3*time.Second), 2*time.Minute)
		o.Trailing = g.rng.IntN(4)
		if g.lim.Calm {
			o.Lease = 0
		}
	case n < 84:
		o.Kind = Touch
	case n < 93:
		o.Kind = Delete
	case n < 95:
		o.Kind = Drop
	case n < 98:
		o.Kind, o.Victim = Release, g.rng.IntN(8)
	default:
		o.Kind, o.Victim = Quota, g.rng.IntN(4)
	}
	if g.lim.Calm && (o.Kind == Quota || o.Kind == Release) {
		o.Kind = Touch
	}
	o.ByID = g.ids.IntN(3) == 0
	return o
}

func (g *generator) put(o *Op) {
	o.Kind = Put
	o.Durable = g.chance(40)
	o.DropIfBusy = g.chance(10) && !g.lim.Calm
	if g.chance(10) {
		o.Importance = uint8(1 + g.rng.IntN(4))
	}
	g.deadline(o, 25)
	if g.h.Mode == Clients && g.chance(15) && !g.lim.NoMeddling {
		g.meddle(o)
	}
}

func (g *generator) get(o *Op) {
	o.Kind = Get
	if g.chance(20) {
		o.Kind = MatchGet
	}
	o.Bounce = g.chance(g.bounces)
	o.NoTouch = g.chance(20)
	o.NoCallback = g.chance(30)
	g.deadline(o, 50)
	if g.h.Mode == Clients && g.chance(15) && !g.lim.NoMeddling {
		g.meddle(o)
	}
}

func (g *generator) deadline(o *Op, percent int) {
	if g.deadlines && !g.lim.Calm && g.chance(percent) {
		latency := g.h.Config.LatencyMax + time.Microsecond
		o.Deadline = pick(g, -1, g.between(1, latency), g.between(1, latency), g.between(1, 4*latency), g.between(1, time.Second))
	}
}

func (g *generator) meddle(o *Op) {
	o.Meddle = g.between(1, g.h.Config.LatencyMax+time.Microsecond)
	o.Victim = g.rng.IntN(8)
}
