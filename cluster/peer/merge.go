package peer

import (
	"bytes"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/engine"
)

// Bounds of a Merge.
const (
	// FloorsMax bounds the namespaces that were ever dropped in a pool, twice over: nodes
	// refuse a drop beyond half of it, so that what they tell each other stays below.
	FloorsMax = 1 << 15
	// LostMax bounds the namespaces of one origin whose erasures are not known by name.
	LostMax = 1 << 15
	// ErasuresMax bounds the erasures of one message.
	ErasuresMax = 4096
)

// Merge is the body of KindMerge and KindDelete and of their answers: what one node knows
// of erasures, and a piece of what the other lacks.
type Merge struct {
	// Wants asks the other to answer with what the sender's Clock and Digest lack.
	Wants bool
	Clock Clock
	// Digest is of all floors that the sender has: docs/format/peer.md.
	Digest uint64
	Floors []Floor // all of them, or none
	Groups []Group
}

// Floor is the lowest incarnation of a namespace that is not erased. Those that are not
// told are at 1.
type Floor struct {
	Namespace   [32]byte
	Incarnation uint32
}

// Group is the erasures of one origin in a row: it takes whoever knows those up to After
// to Through.
type Group struct {
	Origin  member.ID
	After   uint64
	Through uint64
	// Lost are namespaces in which blocks were erased that the sender cannot name any
	// more; they stand before all Erasures.
	Lost     []Lost
	Erasures []Erasure
}

// Lost says that erasures in a namespace, the latest of which had this sequence number, are
// not known by name.
type Lost struct {
	Namespace [32]byte
	Seq       uint64
}

// Erasure is one deletion of one block, or a drop of the whole namespace: then ID is zero,
// and Incarnation the one that the drop raised it to.
type Erasure struct {
	Seq         uint64
	Namespace   [32]byte
	Incarnation uint32
	ID          [16]byte
}

// Drop reports whether e erases the whole namespace.
func (e *Erasure) Drop() bool { return e.ID == [16]byte{} }

const (
	floorBytes   = 32 + 4
	groupBytes   = 16 + 8 + 8 + 4 + 4 // without what it lists
	lostBytes    = 32 + 8
	erasureBytes = 8 + 32 + 4 + 16

	flagWants = 1 << 0
)

// AppendMerge encodes m.
func AppendMerge(b []byte, m *Merge) []byte {
	var flags uint32
	if m.Wants {
		flags |= flagWants
	}
	b = AppendClock(le.AppendUint32(b, flags), m.Clock)
	b = le.AppendUint64(b, m.Digest)
	b = le.AppendUint32(b, uint32(len(m.Floors)))
	for i := range m.Floors {
		b = le.AppendUint32(append(b, m.Floors[i].Namespace[:]...), m.Floors[i].Incarnation)
	}
	b = le.AppendUint32(b, uint32(len(m.Groups)))
	for i := range m.Groups {
		b = m.Groups[i].append(b)
	}
	return b
}

func (g *Group) append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint64(append(b, g.Origin[:]...), g.After), g.Through)
	b = le.AppendUint32(b, uint32(len(g.Lost)))
	for i := range g.Lost {
		b = le.AppendUint64(append(b, g.Lost[i].Namespace[:]...), g.Lost[i].Seq)
	}
	b = le.AppendUint32(b, uint32(len(g.Erasures)))
	for i := range g.Erasures {
		e := &g.Erasures[i]
		b = append(le.AppendUint64(b, e.Seq), e.Namespace[:]...)
		b = append(le.AppendUint32(b, e.Incarnation), e.ID[:]...)
	}
	return b
}

// ParseMerge decodes what AppendMerge wrote. What it returns does not refer to body.
func ParseMerge(body []byte) (m Merge, err error) {
	r := read(body)
	flags := r.U32("flags")
	if flags&^flagWants != 0 {
		r.Fail("unknown flags %#x", flags)
	}
	m.Wants = flags&flagWants != 0
	m.Clock = r.clock()
	m.Digest = r.U64("digest")
	m.Floors = r.floors()
	n := r.count(OriginsMax, groupBytes, "groups")
	erasures := 0
	for range n {
		g := r.group()
		if len(m.Groups) > 0 && bytes.Compare(m.Groups[len(m.Groups)-1].Origin[:], g.Origin[:]) >= 0 {
			r.Fail("origins out of order")
		}
		if erasures += len(g.Erasures); erasures > ErasuresMax {
			r.Fail("more than %d erasures", ErasuresMax)
		}
		if r.Err() != nil {
			break
		}
		m.Groups = append(m.Groups, g)
	}
	if err := r.Done(); err != nil {
		return Merge{}, err
	}
	return m, nil
}

func (r *reader) floors() []Floor {
	n := r.count(FloorsMax, floorBytes, "floors")
	if n == 0 {
		return nil
	}
	floors := make([]Floor, n)
	for i := range floors {
		f := &floors[i]
		f.Namespace, f.Incarnation = r.namespace(), r.U32("incarnation")
		r.incarnation(f.Incarnation)
		if i > 0 && bytes.Compare(floors[i-1].Namespace[:], f.Namespace[:]) >= 0 {
			r.Fail("floor %d is not above the one before", i)
		}
	}
	return floors
}

// group takes a group whose numbers rise from After to Through.
func (r *reader) group() (g Group) {
	copy(g.Origin[:], r.Take(16, "origin"))
	g.After, g.Through = r.U64("first number"), r.U64("last number")
	last := g.After
	n := r.count(LostMax, lostBytes, "lost namespaces")
	if n > 0 {
		g.Lost = make([]Lost, n)
	}
	for i := range g.Lost {
		g.Lost[i] = Lost{Namespace: r.namespace(), Seq: r.U64("sequence number")}
		if g.Lost[i].Seq <= g.After {
			r.Fail("a lost erasure that is not above %d", g.After)
		}
		last = max(last, g.Lost[i].Seq)
	}
	if n = r.count(ErasuresMax, erasureBytes, "erasures"); n > 0 {
		g.Erasures = make([]Erasure, n)
	}
	for i := range g.Erasures {
		e := &g.Erasures[i]
		e.Seq, e.Namespace, e.Incarnation = r.U64("sequence number"), r.namespace(), r.U32("incarnation")
		copy(e.ID[:], r.Take(16, "ID"))
		if e.Seq <= last {
			r.Fail("erasure %d is not above %d", e.Seq, last)
		}
		if e.Incarnation == 0 {
			r.Fail("an erasure without an incarnation")
		}
		r.incarnation(e.Incarnation)
		last = e.Seq
	}
	if last != g.Through || g.Through <= g.After {
		r.Fail("a group from %d to %d that ends at %d", g.After, g.Through, last)
	}
	return g
}

// incarnation refuses one that no namespace can have.
func (r *reader) incarnation(n uint32) {
	if n > engine.IncarnationMax {
		r.Fail("incarnation %d, at most %d can be", n, uint32(engine.IncarnationMax))
	}
}

func (r *reader) namespace() (id [32]byte) {
	copy(id[:], r.Take(len(id), "namespace"))
	return id
}
