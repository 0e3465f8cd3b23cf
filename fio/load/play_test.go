package load

import (
	"testing"

	"pgregory.net/rapid"
)

// played is one op as it went.
type played struct {
	Op
	beganNS, endNS int64
	outcome        Outcome
}

// player is a worker and a target in virtual time.
type player struct {
	depth     int
	latencyNS func(op *Op) int64
	outcome   func(op *Op) Outcome // at the op's end; nil: OK
	untilNS   int64                // begins nothing any more; 0: to the end
	opsMax    int
	inFlight  []played
	nowNS     int64
	wakeNS    int64 // of the source's newest Wait
	done      []played
}

// play lets a worker run a source to its end, or until the player's limits, and
// answers the ops in the order of their ends.
func (p *player) play(t rapid.TB, s Source) []played {
	t.Helper()
	for {
		more := p.begin(t, s)
		if len(p.inFlight) == 0 {
			if !more {
				return p.done
			}
			if p.wakeNS == AtOnce {
				t.Fatalf("at %d ns the source waits for nothing in flight", p.nowNS)
			}
			if p.wakeNS <= p.nowNS {
				t.Fatalf("at %d ns the source waits until %d", p.nowNS, p.wakeNS)
			}
			p.nowNS = p.wakeNS
			continue
		}
		first := 0
		for i := range p.inFlight {
			if p.inFlight[i].endNS < p.inFlight[first].endNS {
				first = i
			}
		}
		if more && p.wakeNS != AtOnce && p.wakeNS < p.inFlight[first].endNS && len(p.inFlight) < p.depth {
			p.nowNS = max(p.nowNS, p.wakeNS)
			continue
		}
		p.end(s, first)
	}
}

// begin starts ops until there is no room or nothing is due; more tells whether
// ops may still come.
func (p *player) begin(t rapid.TB, s Source) (more bool) {
	t.Helper()
	p.wakeNS = AtOnce
	for len(p.inFlight) < p.depth {
		if p.opsMax > 0 && len(p.done)+len(p.inFlight) >= p.opsMax || p.untilNS > 0 && p.nowNS >= p.untilNS {
			return false
		}
		op := Op{IntendedNS: 12345}
		switch s.Next(p.nowNS, &op) {
		case End:
			return false
		case Wait:
			p.wakeNS = op.IntendedNS
			return true
		}
		began := max(p.nowNS, op.IntendedNS)
		p.nowNS = began // a worker waits for an op that lies ahead
		p.inFlight = append(p.inFlight, played{Op: op, beganNS: began, endNS: began + p.latencyNS(&op)})
	}
	return true
}

func (p *player) end(s Source, i int) {
	e := p.inFlight[i]
	p.inFlight = append(p.inFlight[:i], p.inFlight[i+1:]...)
	p.nowNS = max(p.nowNS, e.endNS)
	e.endNS = p.nowNS
	if p.outcome != nil {
		e.outcome = p.outcome(&e.Op)
	}
	op := e.Op
	s.Done(&op, e.outcome, p.nowNS)
	p.done = append(p.done, e)
}

// always is a latency.
func always(ns int64) func(*Op) int64 { return func(*Op) int64 { return ns } }

// cache is a target that remembers what was written, by namespace and block.
type cache map[[2]uint64]bool

func (c cache) outcome(op *Op) Outcome {
	key := [2]uint64{uint64(op.Namespace), op.Block}
	if op.Kind == Write {
		c[key] = true
		return OK
	}
	if c[key] {
		return OK
	}
	return Miss
}

func TestPlayer(t *testing.T) {
	p := player{depth: 2, latencyNS: always(10)}
	done := p.play(t, newPattern(t, plain(false, 100, 4*kib), 16*kib, 16*kib, 1))
	if len(done) != 4 || done[3].endNS != 20 {
		t.Errorf("%+v", done)
	}
}
