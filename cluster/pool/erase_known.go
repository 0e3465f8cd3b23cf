package pool

import (
	"bytes"
	"maps"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
)

// known is what a node knows of erasures, in memory: 32 bytes for each one that it can
// name. Whoever uses it holds eraser.mu.
type known struct {
	origins map[member.ID]*origin
	spaces  map[[32]byte]*spaceKnown
	byIndex []*spaceKnown
	named   int    // tombstones
	pairs   int    // of a namespace and an origin that has erased in it
	digest  uint64 // of the floors
}

// origin is one node's erasures.
type origin struct {
	id member.ID
	// clock: all of them up to here have had their effect on this node.
	clock uint64
	// low: not all of those up to here are known by name; of each namespace concerned,
	// spaceKnown.lost says so.
	low   uint64
	named []tombstone // by rising seq
}

// tombstone is one erasure.
type tombstone struct {
	id          ID // zero: the whole namespace
	seq         uint64
	space       uint32 // index in known.byIndex
	incarnation uint32
}

// spaceKnown is what is known of one namespace.
type spaceKnown struct {
	id    [32]byte
	index uint32
	floor uint32 // the lowest incarnation that is not erased; at least 1
	// clock: of each origin, the latest erasure in this namespace. Replaced, never changed.
	clock peer.Clock
	lost  map[member.ID]uint64 // of each origin, the latest that is not known by name
}

func newKnown() *known {
	return &known{origins: map[member.ID]*origin{}, spaces: map[[32]byte]*spaceKnown{}}
}

func (k *known) space(id [32]byte) *spaceKnown {
	s := k.spaces[id]
	if s == nil {
		s = &spaceKnown{id: id, index: uint32(len(k.byIndex)), floor: 1, lost: map[member.ID]uint64{}}
		k.spaces[id] = s
		k.byIndex = append(k.byIndex, s)
	}
	return s
}

func (k *known) origin(id member.ID) *origin {
	o := k.origins[id]
	if o == nil {
		o = &origin{id: id}
		k.origins[id] = o
	}
	return o
}

// clockOf is how far an origin is known.
func (k *known) clockOf(id member.ID) uint64 {
	if o := k.origins[id]; o != nil {
		return o.clock
	}
	return 0
}

// floorOf is a namespace's floor.
func (k *known) floorOf(id [32]byte) uint32 {
	if s := k.spaces[id]; s != nil {
		return s.floor
	}
	return 1
}

// add takes one erasure in, later than all of its origin so far.
func (k *known) add(r *logged) {
	s, o := k.space(r.Namespace), k.origin(r.origin)
	o.named = append(o.named, tombstone{id: r.ID, seq: r.Seq, space: s.index, incarnation: r.Incarnation})
	o.clock = max(o.clock, r.Seq)
	k.named++
	k.tick(s, r.origin, r.Seq)
	k.raise(s, r.Incarnation)
}

// addLost takes in that erasures up to seq are not known by name.
func (k *known) addLost(m lostMark) {
	s, o := k.space(m.space), k.origin(m.origin)
	s.lost[m.origin] = max(s.lost[m.origin], m.seq)
	o.clock, o.low = max(o.clock, m.seq), max(o.low, m.seq)
	k.tick(s, m.origin, m.seq)
}

// blur gives up the names of all erasures of an origin that has a gap behind them.
func (k *known) blur(id member.ID) (marks []lostMark) {
	o := k.origins[id]
	if o == nil {
		return nil
	}
	latest := map[uint32]uint64{}
	for _, t := range o.named {
		latest[t.space] = t.seq
	}
	for space, seq := range latest {
		marks = append(marks, lostMark{space: k.byIndex[space].id, origin: id, seq: seq})
	}
	return marks
}

// tick moves a namespace's clock on.
func (k *known) tick(s *spaceKnown, id member.ID, seq uint64) {
	i, found := s.clock.Find(id)
	if !found {
		k.pairs++
		s.clock = slices.Insert(slices.Clone(s.clock), i, peer.Mark{Origin: id, Seq: seq})
		return
	}
	if s.clock[i].Seq < seq {
		s.clock = slices.Clone(s.clock)
		s.clock[i].Seq = seq
	}
}

// raise raises a floor.
func (k *known) raise(s *spaceKnown, to uint32) {
	if to <= s.floor {
		return
	}
	k.digest ^= floorHash(s.id, s.floor) ^ floorHash(s.id, to)
	s.floor = to
}

// floorHash is a floor's part of a digest; that of a floor of 1 is nothing.
func floorHash(id [32]byte, floor uint32) uint64 {
	if floor <= 1 {
		return 0
	}
	return xxh3.Hash(le.AppendUint32(id[:], floor))
}

// forget drops the names of the oldest erasures of an origin.
func (k *known) forget(id member.ID, n int) {
	o := k.origins[id]
	for _, t := range o.named[:n] {
		k.addLost(lostMark{space: k.byIndex[t.space].id, origin: id, seq: t.seq})
	}
	o.named = slices.Clone(o.named[n:])
	k.named -= n
}

// clock is all origins'.
func (k *known) clock() peer.Clock {
	c := make(peer.Clock, 0, len(k.origins))
	for id, o := range k.origins {
		c = append(c, peer.Mark{Origin: id, Seq: o.clock})
	}
	slices.SortFunc(c, func(a, b peer.Mark) int { return bytes.Compare(a.Origin[:], b.Origin[:]) })
	return c
}

// sum is a digest of clock and floors.
func (k *known) sum() uint64 {
	h := xxh3.New()
	for _, m := range k.clock() {
		_, _ = h.Write(le.AppendUint64(m.Origin[:], m.Seq))
	}
	return h.Sum64() ^ k.digest
}

// floors are those above 1, in order.
func (k *known) floors() (floors []peer.Floor) {
	for id, s := range k.spaces {
		if s.floor > 1 {
			floors = append(floors, peer.Floor{Namespace: id, Incarnation: s.floor})
		}
	}
	slices.SortFunc(floors, func(a, b peer.Floor) int { return bytes.Compare(a.Namespace[:], b.Namespace[:]) })
	return floors
}

// lost is what is not known by name.
func (k *known) lost() (marks []lostMark) {
	for id, s := range k.spaces {
		for from, seq := range s.lost {
			marks = append(marks, lostMark{space: id, origin: from, seq: seq})
		}
	}
	return marks
}

// lacking is what somebody who stands at theirs does not know, at most so many erasures
// and the lost ones that come before them.
func (k *known) lacking(theirs peer.Clock, most int) (groups []peer.Group) {
	ids := slices.SortedFunc(maps.Keys(k.origins), func(a, b member.ID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		o, after := k.origins[id], theirs.Of(id)
		if o.clock <= after || most <= 0 {
			continue
		}
		g := peer.Group{Origin: id, After: after, Through: after}
		if after < o.low {
			for space, s := range k.spaces {
				if seq := s.lost[id]; seq > after {
					g.Lost = append(g.Lost, peer.Lost{Namespace: space, Seq: seq})
					g.Through = max(g.Through, seq)
				}
			}
			slices.SortFunc(g.Lost, func(a, b peer.Lost) int { return bytes.Compare(a.Namespace[:], b.Namespace[:]) })
		}
		for _, t := range o.after(g.Through, most) {
			g.Erasures = append(g.Erasures, peer.Erasure{Seq: t.seq, Namespace: k.byIndex[t.space].id, Incarnation: t.incarnation, ID: t.id})
			g.Through = t.seq
			most--
		}
		groups = append(groups, g)
	}
	return groups
}

// after is the first erasures after seq, at most so many.
func (o *origin) after(seq uint64, most int) []tombstone {
	i := sort.Search(len(o.named), func(i int) bool { return o.named[i].seq > seq })
	return o.named[i:min(i+most, len(o.named))]
}

// covers reports whether everything that c names is known.
func (k *known) covers(c peer.Clock) bool {
	for i := range c {
		if k.clockOf(c[i].Origin) < c[i].Seq {
			return false
		}
	}
	return true
}

// stale says which of the IDs may have been erased since somebody stood at c: all of them
// where not all erasures since are known by name.
func (k *known) stale(s *spaceKnown, c peer.Clock, ids []ID) (all bool, some map[ID]bool) {
	for _, mark := range s.clock {
		since := c.Of(mark.Origin)
		if mark.Seq <= since {
			continue
		}
		if s.lost[mark.Origin] > since {
			return true, nil
		}
		if some == nil {
			some = make(map[ID]bool, len(ids))
			for _, id := range ids {
				some[id] = false
			}
		}
		o := k.origins[mark.Origin]
		for _, t := range o.after(since, len(o.named)) {
			if t.space != s.index {
				continue
			}
			if t.id == (ID{}) {
				return true, nil
			}
			if _, asked := some[t.id]; asked {
				some[t.id] = true
			}
		}
	}
	return false, some
}
