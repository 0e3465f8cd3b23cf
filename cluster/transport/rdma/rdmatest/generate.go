package rdmatest

import (
	"math/rand/v2"
	"time"
)

// Generate draws a history from a seed: the same for the same arguments. Mode "" draws one.
func Generate(seed uint64, mode Mode) *History {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x4d4b))}
	drawn := pick(g, Calm, Hasty, Hasty, Fabric, Control, Frozen, Crashes, Stuck, All, All)
	if mode == "" {
		mode = drawn
	}
	g.h = &History{Seed: seed, Mode: mode}
	g.config(&g.h.Config)
	g.span = g.between(50*time.Millisecond, 3*time.Second)
	if g.has(Control) || g.has(Crashes) || g.has(Frozen) {
		g.span *= 4
	}
	for range 1 + g.rng.IntN(5) {
		g.h.Clients = append(g.h.Clients, g.client())
	}
	g.troubles()
	return g.h
}

type generator struct {
	rng  *rand.Rand
	h    *History
	span time.Duration // in which operations and troubles begin
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.rng.IntN(len(from))] }

// between draws a time from lo to hi.
func (g *generator) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(g.rng.Int64N(int64(hi-lo)+1))
}

// has reports whether the history knows this kind of trouble.
func (g *generator) has(m Mode) bool { return g.h.Mode == m || g.h.Mode == All }

func (g *generator) config(c *Config) {
	for range 2 + g.rng.IntN(2) {
		c.Ports = append(c.Ports, pick(g, 1, 1, 2, 3))
		lock := int64(0)
		if g.chance(5) {
			lock = pick[int64](g, 4<<10, 1<<20, 10<<20)
		}
		c.LockBytes = append(c.LockBytes, lock)
	}
	c.DelayMax = pick(g, 50*time.Microsecond, 200*time.Microsecond, 2*time.Millisecond)
	c.BytesPerSecond = pick[int64](g, 0, 1<<30, 100<<20)
	c.SilenceMax = pick(g, 1500*time.Millisecond, 10*time.Second)
	c.FabricDelay = pick(g, 5*time.Microsecond, 100*time.Microsecond, 3*time.Millisecond)
	c.FabricRate = pick[int64](g, 0, 2<<30, 200<<20, 50<<20)
	c.BurstPackets = pick(g, 4, 16, 64)
	c.SettleMax = pick(g, 0, 100*time.Microsecond, 5*time.Millisecond, 100*time.Millisecond)
	c.DestroyMax = pick(g, 0, 100*time.Microsecond, 20*time.Millisecond)
	c.Timeout = pick[uint8](g, 10, 14)
	c.Retries = pick[uint8](g, 1, 5)
	c.PieceBytes = pick(g, 4096, 64<<10, 1<<20)
	c.PostedBytes = int64(c.PieceBytes) * pick[int64](g, 1, 3, 16)
	c.LandingBytes = pick[int64](g, 256<<10, 1<<20, 4<<20)
	c.InFlight = pick[int64](g, 1<<20, 8<<20, 128<<20)
	c.FenceTime = pick(g, 2*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond)
	if g.h.Mode == Calm {
		c.FenceTime = 5 * time.Second // a fence that gets no word in time loses blocks of others
	}
	c.OpenTime = pick(g, 50*time.Millisecond, 2*time.Second)
	c.PauseMin = pick(g, 5*time.Millisecond, 200*time.Millisecond)
	c.PauseMax = pick(g, 200*time.Millisecond, 5*time.Second)
	c.RegisteredParts = pick(g, 1, 1, 3)
}

func (g *generator) client() Client {
	n := len(g.h.Config.Ports)
	c := Client{Node: g.rng.IntN(n)}
	c.Other = (c.Node + 1 + g.rng.IntN(n-1)) % n
	left, nBytes := g.span, 0
	for left > 0 && nBytes < 12<<20 && len(c.Ops) < 40 {
		o := g.op()
		left -= o.Pause + 5*time.Millisecond
		for _, b := range o.Blocks {
			nBytes += b.Bytes
		}
		c.Ops = append(c.Ops, o)
	}
	return c
}

func (g *generator) op() Op {
	o := Op{Kind: Fetch, Quiet: g.chance(20), Waits: g.chance(50) && g.h.Mode != Stuck}
	if g.chance(60) {
		o.Pause = pick(g, g.between(0, 2*time.Millisecond), g.between(0, 100*time.Millisecond), g.between(0, g.span/4))
	}
	switch n := g.rng.IntN(100); {
	case n < 4:
		o.Kind = Call
	case n < 8:
		o.Kind = Push
	case n < 11 && g.h.Mode != Calm:
		o.Kind = Close
	case n < 14 && g.h.Mode != Stuck:
		o.Kind = Register
	}
	if g.h.Mode != Calm && g.chance(60) {
		o.Deadline = pick(g, g.between(0, 2*time.Millisecond), g.between(0, 20*time.Millisecond), g.between(0, 200*time.Millisecond), g.between(0, 2*time.Second))
		o.Cancel = g.chance(50)
	}
	if o.Kind != Fetch {
		return o
	}
	o.Blocks = g.blocks()
	if g.h.Mode != Calm && g.chance(30) {
		o.CancelAt = 1 + g.rng.IntN(len(o.Blocks))
	}
	return o
}

func (g *generator) blocks() (all []Block) {
	most, count := pick(g, 5000, 100<<10, 1<<20, 4<<20), 1+g.rng.IntN(8)
	if most <= 5000 && g.chance(20) {
		count = 1 + g.rng.IntN(300)
	}
	known, sourceKnown := pick(g, 100, 100, 50, 0), pick(g, 100, 50, 0)
	reads := pick(g, 0, time.Millisecond, 20*time.Millisecond)
	fails := g.chance(4)
	for i := range min(count, 1+5<<20/most) {
		b := Block{Bytes: g.rng.IntN(most + 1), Pieces: pick(g, 1, 1, 2, 5), Known: g.chance(known), SourceKnown: g.chance(sourceKnown), Apart: g.chance(30)}
		switch n := g.rng.IntN(100); {
		case n < 4:
			b.What = Miss
		case n < 7:
			b.What = Refuse
		case n < 9:
			b.What = Forget
		case n < 11:
			b.What = Longer
		case n < 16:
			b.Bytes = 0
		case n < 20:
			b.Bytes = pick(g, 1, 4096, 256<<10, 1<<20)
		}
		if fails && i == count/2 {
			b.What = Fail
		}
		if reads > 0 && g.chance(50) {
			b.Read = g.between(0, reads)
		}
		all = append(all, b)
	}
	return all
}

// troubles draws the timetable.
func (g *generator) troubles() {
	var kinds []TroubleKind
	if g.has(Fabric) {
		kinds = append(kinds, CutWrites, CutWrites, CutBack, PortDown, PortDown, Device, Breaks, Plain)
	}
	if g.has(Control) {
		kinds = append(kinds, CutCalls, CutCalls, CutAll, SlowCalls)
	}
	if g.h.Mode == Stuck {
		kinds = append(kinds, Stick, Stick, CutWrites, CutCalls, Device, Breaks)
	}
	if g.has(Frozen) {
		kinds = append(kinds, Stop, Stop, Freeze, Freeze)
	}
	if g.has(Crashes) {
		kinds = append(kinds, Kill, Kill, PowerCut)
	}
	if len(kinds) == 0 {
		return
	}
	n := len(g.h.Config.Ports)
	for range 1 + g.rng.IntN(8) {
		t := Trouble{Kind: pick(g, kinds...), At: g.between(0, g.span), Node: g.rng.IntN(n),
			For: pick(g, g.between(0, 20*time.Millisecond), g.between(0, time.Second), g.between(0, g.span))}
		t.Other = (t.Node + 1 + g.rng.IntN(n-1)) % n
		t.Port = g.rng.IntN(g.h.Config.Ports[t.Node])
		g.h.Troubles = append(g.h.Troubles, t)
	}
}
