package historytest

import (
	"math/rand/v2"
	"time"
)

// Generate draws a history from a seed: the same for the same arguments. Mode "" draws one.
func Generate(seed uint64, mode Mode) *History {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x9001))}
	drawn := pick(g, Calm, Network, Network, Damage, Crashes, Crashes, Lies, Elastic, All, All)
	if mode == "" {
		mode = drawn
	}
	g.h = &History{Seed: seed, Mode: mode}
	g.config(&g.h.Config)
	g.span = g.between(5*time.Second, 40*time.Second)
	for range 2 + g.rng.IntN(4) {
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
	c.Nodes = 3 + g.rng.IntN(3)
	c.Spaces = 1 + g.rng.IntN(2)
	c.Keys = pick(g, 4, 12, 40)
	c.Copies = pick(g, 1, 1, 2, 2, 3)
	c.LocalPlacement = g.chance(20)
	c.Tombstones = pick(g, 1<<12, 1<<12, 1<<12, 64)
	c.Hints = pick(g, 1<<10, 1<<10, 8)
	c.DelayMax = pick(g, 200*time.Microsecond, time.Millisecond, 5*time.Millisecond)
	if g.chance(30) {
		c.BytesPerSecond = pick[int64](g, 1<<20, 10<<20)
	}
	c.SilenceMax = pick(g, 3*time.Second, 10*time.Second, time.Minute)
	c.LagMax = pick(g, 50*time.Millisecond, time.Second)
	if g.has(Lies) {
		c.LagMax = pick(g, time.Second, 5*time.Second)
	}
	c.DriveMax = pick(g, 100*time.Microsecond, 400*time.Microsecond, 2*time.Millisecond)
	c.SyncInterval = pick(g, 50*time.Millisecond, time.Second)
}

func (g *generator) client() Client {
	c := Client{Node: g.rng.IntN(g.h.Config.Nodes)}
	for left := g.span; left > 0; {
		o := g.op()
		left -= o.Pause + 10*time.Millisecond
		if c.Ops = append(c.Ops, o); len(c.Ops) == 80 {
			break
		}
	}
	return c
}

func (g *generator) op() Op {
	c := &g.h.Config
	o := Op{Space: g.rng.IntN(c.Spaces), From: g.rng.IntN(c.Keys), Count: min(1+g.rng.IntN(8), c.Keys)}
	if g.chance(70) {
		o.Pause = pick(g, g.between(0, 5*time.Millisecond), g.between(0, 100*time.Millisecond), g.between(0, 2*time.Second))
	}
	switch n := g.rng.IntN(100); {
	case n < 38:
		o.Kind, o.Durable = Put, g.chance(30)
	case n < 75:
		o.Kind, o.Bounce = Get, g.chance(30)
	case n < 83:
		o.Kind = Match
	case n < 97:
		o.Kind = Delete
	default:
		o.Kind = Drop
	}
	if (o.Kind == Get || o.Kind == Put) && g.chance(40) {
		o.Deadline = pick(g, g.between(1, 4*c.DelayMax), g.between(1, 20*time.Millisecond), g.between(1, 2*time.Second))
	}
	return o
}

// troubles draws the timetable.
func (g *generator) troubles() {
	if g.has(Elastic) {
		for node := 1; node < g.h.Config.Nodes; node++ {
			if g.chance(30) {
				g.add(Trouble{Kind: Late, Node: node, For: g.between(0, g.span)})
			}
		}
	}
	var kinds []TroubleKind
	if g.has(Network) {
		kinds = append(kinds, Cut, CutBoth, Isolate, Freeze, Freeze, Slow)
	}
	if g.has(Damage) {
		kinds = append(kinds, Damaged, Damaged, Chopped)
	}
	if g.has(Crashes) {
		kinds = append(kinds, Kill, Kill, PowerCut)
	}
	if g.has(Lies) {
		kinds = append(kinds, Doubt, Deny, Deny, Deafen)
	}
	if g.has(Elastic) {
		kinds = append(kinds, Drain)
	}
	if len(kinds) == 0 {
		return
	}
	for range 1 + g.rng.IntN(8) {
		g.add(g.trouble(pick(g, kinds...)))
	}
}

func (g *generator) add(t Trouble) { g.h.Troubles = append(g.h.Troubles, t) }

func (g *generator) trouble(kind TroubleKind) Trouble {
	n := g.h.Config.Nodes
	t := Trouble{Kind: kind, At: g.between(0, g.span), For: pick(g, g.between(0, 200*time.Millisecond), g.between(0, 3*time.Second), g.between(0, g.span)),
		Node: g.rng.IntN(n)}
	t.Other = (t.Node + 1 + g.rng.IntN(n-1)) % n
	if g.chance(60) {
		t.Noticed = g.between(1, 5*time.Second)
	}
	return t
}
