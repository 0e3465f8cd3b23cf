package peer

import (
	"bytes"
	"slices"

	"github.com/spillway-kv/spillway/cluster/member"
)

// ID names a block in the whole pool.
type ID = [16]byte

// Scope begins the body of every call about blocks: whose they are, and what the caller
// knows of erasures among them.
type Scope struct {
	Namespace   [32]byte
	Incarnation uint32
	Clock       Clock
}

// Clock says how far a node has taken in the deletions of each origin. By rising
// origin, each once; an origin that is not named stands at 0.
type Clock []Mark

// Mark is one origin's part of a Clock: everything up to Seq has been taken in.
type Mark struct {
	Origin member.ID
	Seq    uint64
}

// OriginsMax bounds the marks of a Clock.
const OriginsMax = 4096

const markBytes = 16 + 8

// AppendScope encodes a scope.
func AppendScope(b []byte, s *Scope) []byte {
	b = append(b, s.Namespace[:]...)
	b = le.AppendUint32(b, s.Incarnation)
	return AppendClock(b, s.Clock)
}

// AppendClock encodes a clock.
func AppendClock(b []byte, c Clock) []byte {
	b = le.AppendUint32(b, uint32(len(c)))
	for i := range c {
		b = append(b, c[i].Origin[:]...)
		b = le.AppendUint64(b, c[i].Seq)
	}
	return b
}

func (r *reader) scope() (s Scope) {
	copy(s.Namespace[:], r.Take(32, "namespace"))
	s.Incarnation = r.U32("incarnation")
	s.Clock = r.clock()
	return s
}

func (r *reader) clock() Clock {
	n := r.count(OriginsMax, markBytes, "origins")
	if n == 0 {
		return nil
	}
	c := make(Clock, n)
	for i := range c {
		copy(c[i].Origin[:], r.Take(16, "origin"))
		c[i].Seq = r.U64("sequence number")
		if i > 0 && bytes.Compare(c[i-1].Origin[:], c[i].Origin[:]) >= 0 {
			r.Fail("origins of a clock out of order")
			return nil
		}
	}
	return c
}

// Find is where an origin stands in the clock, or would.
func (c Clock) Find(origin member.ID) (i int, found bool) {
	return slices.BinarySearchFunc(c, origin, func(m Mark, id member.ID) int { return bytes.Compare(m.Origin[:], id[:]) })
}

// Of is how far the clock stands for an origin.
func (c Clock) Of(origin member.ID) uint64 {
	i, found := c.Find(origin)
	if !found {
		return 0
	}
	return c[i].Seq
}

// Covers reports whether c stands as far as d everywhere.
func (c Clock) Covers(d Clock) bool {
	for i := range d {
		if c.Of(d[i].Origin) < d[i].Seq {
			return false
		}
	}
	return true
}
