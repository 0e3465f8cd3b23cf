package history

import "time"

// faults draws the troubles of a life that its history's mode knows.
func (g *generator) faults(l *Life, number int) {
	switch g.h.Mode {
	case Deadlines:
		g.timed(l, func() Faults { return g.slow() })
	case Media:
		g.timed(l, func() Faults { return g.medium() })
	case Errors:
		g.timed(l, func() Faults { return g.errors() })
		if g.chance(25) {
			f := g.errors()
			l.OpenFaults = &f
		}
	case Clients:
		if g.chance(30) {
			g.timed(l, func() Faults { return g.slow() })
		}
	case Lies:
		for range g.rng.IntN(4) {
			if number == 0 {
				break
			}
			f := Flip{Prefix: "wal-", Number: g.rng.Uint64() >> 1}
			if g.chance(40) {
				f.Prefix, f.Header = "seg-", true
			}
			l.Flips = append(l.Flips, f)
		}
	}
}

// timed draws one to three plans, and calm times between them.
func (g *generator) timed(l *Life, draw func() Faults) {
	for range 1 + g.rng.IntN(3) {
		after := pick(g, 0, g.between(0, 5*time.Millisecond), g.between(0, time.Second))
		l.Faults = append(l.Faults, TimedFaults{After: after, Faults: draw()})
		if g.chance(50) {
			l.Faults = append(l.Faults, TimedFaults{After: g.between(0, 3*time.Second)})
		}
	}
	// A stuck transfer goes on when the plan changes.
	l.Faults = append(l.Faults, TimedFaults{After: g.between(time.Second, 20*time.Second)})
}

func (g *generator) slow() Faults {
	f := Faults{Delay: pick(g, 0.02, 0.1, 0.3), DelayBy: pick(g, 5*time.Millisecond, 100*time.Millisecond, 2*time.Second)}
	f.Prefix = pick(g, "", "seg-", "seg-", "wal-")
	if g.chance(30) {
		f.Stuck = 0.05
	}
	if g.chance(30) {
		f.ShortRead, f.ShortWrite = 0.1, 0.1
	}
	return f
}

// medium aims at segment files only: what the log has acknowledged as synced
// stays as it is.
func (g *generator) medium() Faults {
	f := Faults{Prefix: "seg-"}
	p := pick(g, 0.02, 0.1, 0.4)
	switch g.rng.IntN(6) {
	case 0:
		f.Lost = p
	case 1:
		f.Misdirected = p
	case 2:
		f.Torn = p
	case 3:
		f.Rot = p
	case 4:
		f.TruncatedRead = p
	default:
		f.Lost, f.Misdirected, f.Torn, f.Rot, f.TruncatedRead = p/4, p/4, p/4, p/4, p/4
	}
	if g.chance(20) {
		f.ShortRead, f.ShortWrite, f.Delay, f.DelayBy = 0.1, 0.1, 0.1, 20*time.Millisecond
	}
	return f
}

// errors draws EIO of one kind.
func (g *generator) errors() Faults {
	f := Faults{Prefix: pick(g, "seg-", "seg-", "wal-", "")}
	p := pick(g, 0.02, 0.1, 0.3)
	switch g.rng.IntN(5) {
	case 0:
		f.ReadEIO = p
	case 1:
		f.WriteEIO = p
	case 2:
		f.SyncEIO = p
	case 3:
		f.MetaEIO = p
	default:
		f.ShortRead, f.ShortWrite = p, p
	}
	return f
}
