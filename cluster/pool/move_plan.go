package pool

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/place"
)

// What a node has is gone through hottest first, in runs, with bounded memory. A survey
// counts the blocks of windows: stretches of the log of a store, for a run is put at once.
// Windows are sorted by their hottest block; then some of them at a time are read anew, this
// time with their keys. Where a node has several stores a run lies on all of them; its
// windows were used together, and so stand side by side in this order.

const (
	// windowsMax bounds the windows of a survey: beyond, twice as long ones are counted.
	windowsMax = 1 << 17
	// windowShift makes windows of 8 positions at first: a run has several, on each store.
	windowShift = 3
	// gatherMax is for how many blocks the keys are held at once.
	gatherMax = 1 << 17
)

// stretch names a window.
type stretch struct {
	space  int
	store  int
	number uint64
}

// heat is what a block is worth to its node.
type heat struct {
	importance, uses uint8
	idle             time.Duration
	position         uint64
}

// hotter compares: below 0 if a is worth more.
func (a heat) hotter(b heat) int {
	return cmp.Or(cmp.Compare(b.importance, a.importance), cmp.Compare(b.uses, a.uses), cmp.Compare(a.idle, b.idle), cmp.Compare(b.position, a.position))
}

func heatOf(e *engine.Entry) heat { return heat{e.Importance, e.Uses, e.Idle, e.Position} }

// warm is a window and its hottest block.
type warm struct {
	stretch
	heat
	blocks int
}

// survey is what a node has.
type survey struct {
	spaces []surveyed
	shift  uint    // a window is 1<<shift positions long
	order  []*warm // hottest first
	found  map[stretch]*warm
	blocks int
	bytes  int64
	// nameless are blocks whose key was lost with an index; they cannot be put elsewhere.
	nameless int
}

// surveyed is a namespace and the incarnation that its IDs are of.
type surveyed struct {
	Space
	of Of
}

// newSurvey is a survey of spaces that has counted nothing.
func newSurvey(spaces []Space) *survey {
	s := &survey{shift: windowShift, found: map[stretch]*warm{}}
	for _, space := range spaces {
		_, incarnation := space.IDs(nil)
		s.spaces = append(s.spaces, surveyed{space, Of{space.ID(), incarnation, space.Descriptor().BlockBytes}})
	}
	return s
}

// takeSurvey counts what spaces have. more is asked now and then whether to go on.
func takeSurvey(spaces []Space, more func() bool) (*survey, error) {
	s := newSurvey(spaces)
	for i := range s.spaces {
		err := s.scan(i, Cursor{}, func(at Cursor, e *engine.Entry) bool {
			s.count(i, at.Store, heatOf(e))
			s.blocks++
			s.bytes += int64(e.BlockBytes)
			return s.blocks%1024 != 0 || more()
		})
		if err != nil {
			return nil, err
		}
	}
	s.sort()
	return s, nil
}

// scan calls f for every block of a space behind a place that has a key.
func (s *survey) scan(space int, from Cursor, f func(at Cursor, e *engine.Entry) bool) error {
	return s.spaces[space].Scan(from, func(at Cursor, e engine.Entry) bool {
		if len(e.Key.Bytes) == 0 {
			s.nameless++
			return true
		}
		return f(at, &e)
	})
}

// count counts a block into its window.
func (s *survey) count(space, store int, h heat) {
	at := stretch{space, store, h.position >> s.shift}
	w := s.found[at]
	if w == nil {
		if len(s.found) >= windowsMax {
			s.lengthen()
			at.number = h.position >> s.shift
		}
		if w = s.found[at]; w == nil {
			w = &warm{stretch: at, heat: h}
			s.found[at] = w
		}
	}
	w.blocks++
	if h.hotter(w.heat) < 0 {
		w.heat = h
	}
}

// sort puts the windows into their order.
func (s *survey) sort() {
	s.order = make([]*warm, 0, len(s.found))
	for _, w := range s.found {
		s.order = append(s.order, w)
	}
	slices.SortFunc(s.order, func(a, b *warm) int {
		return cmp.Or(a.hotter(b.heat), cmp.Compare(a.space, b.space), cmp.Compare(a.store, b.store), cmp.Compare(b.number, a.number))
	})
}

// lengthen makes windows twice as long.
func (s *survey) lengthen() {
	s.shift++
	found := make(map[stretch]*warm, len(s.found)/2)
	for _, w := range s.found {
		w.number >>= 1
		other := found[w.stretch]
		if other == nil {
			found[w.stretch] = w
			continue
		}
		other.blocks += w.blocks
		if w.hotter(other.heat) < 0 {
			other.heat = w.heat
		}
	}
	s.found = found
}

// moveItem is a block that may go to another node.
type moveItem struct {
	id    ID
	key   engine.Key
	depth uint32
	store int
	heat
}

func newMoveItem(store int, e *engine.Entry) moveItem {
	return moveItem{e.ID, engine.Key{Group: e.Key.Group, Bytes: bytes.Clone(e.Key.Bytes)}, e.Depth, store, heatOf(e)}
}

// used says that somebody wanted the block since it was put, or said that it matters.
func (it *moveItem) used() bool { return it.uses > 0 || it.importance > 0 }

// moveRun is blocks of one namespace that are to live on one node, root first.
type moveRun struct {
	space *surveyed
	items []moveItem
}

// gather takes the next windows out of the order and reads their blocks: gatherMax of them,
// or one window. None: there are no more.
func (s *survey) gather(more func() bool) (runs []moveRun, err error) {
	n, blocks := 0, 0
	of := map[stretch]int{}
	spaces := map[int]bool{}
	for ; n < len(s.order) && (n == 0 || blocks+s.order[n].blocks <= gatherMax); n++ {
		of[s.order[n].stretch] = n
		blocks += s.order[n].blocks
		spaces[s.order[n].space] = true
	}
	items := make([][]moveItem, n)
	for space := range s.spaces {
		if !spaces[space] {
			continue
		}
		seen := 0
		err := s.scan(space, Cursor{}, func(at Cursor, e *engine.Entry) bool {
			if n, ok := of[stretch{space, at.Store, e.Position >> s.shift}]; ok && len(items[n]) < 2*gatherMax {
				items[n] = append(items[n], newMoveItem(at.Store, e))
			}
			seen++
			return seen%1024 != 0 || more()
		})
		if err != nil {
			return nil, err
		}
	}
	runs = s.cut(s.order[:n], items)
	s.order = s.order[n:]
	return runs, nil
}

// runs makes runs of some blocks of a space, hottest first.
func (s *survey) runs(space int, some []moveItem) []moveRun {
	s.found, s.shift = map[stretch]*warm{}, windowShift
	for i := range some {
		s.count(space, some[i].store, some[i].heat)
	}
	s.sort()
	at := make(map[stretch]int, len(s.order))
	for i, w := range s.order {
		at[w.stretch] = i
	}
	items := make([][]moveItem, len(s.order))
	for _, it := range some {
		i := at[stretch{space, it.store, it.position >> s.shift}]
		items[i] = append(items[i], it)
	}
	return s.cut(s.order, items)
}

// cut makes runs of windows that follow each other.
func (s *survey) cut(windows []*warm, items [][]moveItem) (runs []moveRun) {
	for i, w := range windows {
		own := items[i]
		// Within a store a put is logged tail first; so back to front it is root first.
		slices.SortFunc(own, func(a, b moveItem) int { return cmp.Compare(b.position, a.position) })
		for len(own) > 0 {
			last := len(runs) - 1
			if last < 0 || runs[last].space != &s.spaces[w.space] || len(runs[last].items) == place.RunBlocksMax {
				runs = append(runs, moveRun{space: &s.spaces[w.space]})
				last++
			}
			n := min(len(own), place.RunBlocksMax-len(runs[last].items))
			runs[last].items = append(runs[last].items, own[:n]...)
			own = own[n:]
		}
	}
	for i := range runs {
		slices.SortStableFunc(runs[i].items, func(a, b moveItem) int { return cmp.Compare(a.depth, b.depth) })
	}
	return runs
}
