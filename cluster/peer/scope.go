package peer

import (
	"bytes"

	"github.com/spillway-kv/spillway/cluster/member"
)

// OriginsMax bounds the nodes that a Clock names.
const OriginsMax = 1024

// Clock says which deletions a node knows of: of each node that has deleted blocks, the
// sequence number up to which it knows all. By rising Origin.
type Clock []Tick

// Tick is one node's part of a Clock.
type Tick struct {
	Origin   member.ID
	Sequence uint64
}

// tickBytes is the length of a Tick.
const tickBytes = 24

// Scope is what a caller knows of a namespace when it asks for blocks.
type Scope struct {
	Space       [32]byte
	Incarnation uint32
	Clock       Clock
}

// Append encodes a scope.
func (s *Scope) Append(b []byte) []byte {
	b = le.AppendUint32(append(b, s.Space[:]...), s.Incarnation)
	return s.Clock.Append(b)
}

// Append encodes a clock.
func (c Clock) Append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(len(c)))
	for i := range c {
		b = le.AppendUint64(append(b, c[i].Origin[:]...), c[i].Sequence)
	}
	return b
}

func (r *reader) scope() (s Scope) {
	s.Space = r.name("namespace")
	s.Incarnation = r.u32("incarnation")
	s.Clock = r.clock()
	return s
}

// name is the 32 bytes of a namespace's ID.
func (r *reader) name(what string) (id [32]byte) {
	copy(id[:], r.take(len(id), what))
	return id
}

func (r *reader) clock() Clock {
	n := r.count(tickBytes, "origins")
	if n > OriginsMax {
		r.fail("a clock of %d origins, at most %d are allowed", n, OriginsMax)
		return nil
	}
	c := make(Clock, n)
	for i := range c {
		copy(c[i].Origin[:], r.take(16, "origin"))
		c[i].Sequence = r.u64("sequence number")
		if i > 0 && bytes.Compare(c[i-1].Origin[:], c[i].Origin[:]) >= 0 {
			r.fail("origin %d is not above the one before", i)
		}
	}
	return c
}
