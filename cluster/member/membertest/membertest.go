// Package membertest simulates the membership of a pool. A World knows the truth; every
// node has a View of it that lags, each by a time of its own, and that a test can make
// wrong. Time is the time package's: in a bubble of testing/synctest lags are instant.
package membertest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
)

// Sight is how a node sees another, whatever the truth is.
type Sight uint8

// Sights.
const (
	True    Sight = iota // as it has heard
	Suspect              // as a member that does not answer
	Absent               // as failed: not a member
)

// World is a pool's membership as it is.
type World struct {
	lagMin, lagMax time.Duration

	mu     sync.Mutex
	rng    *rand.Rand
	truth  map[member.ID]*fact
	views  map[member.ID]*View
	deaf   map[[2]member.ID]bool // listener, speaker
	sights map[[2]member.ID]Sight
}

// fact is what a node has said last.
type fact struct {
	member  member.Member
	number  uint64 // of what it has said
	present bool
}

// New makes a world without nodes, in which news take from lagMin to lagMax, for each
// listener, as seed decides.
func New(seed uint64, lagMin, lagMax time.Duration) *World {
	return &World{lagMin: lagMin, lagMax: lagMax, rng: rand.New(rand.NewPCG(seed, 0x3e3b)), truth: map[member.ID]*fact{},
		views: map[member.ID]*View{}, deaf: map[[2]member.ID]bool{}, sights: map[[2]member.ID]Sight{}}
}

// Join makes m a member, new or again, and returns what it sees. It knows those who are
// there, as of now; they hear of it later.
func (w *World) Join(m member.Member) *View {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.Self, m.Suspect = false, false
	f := w.truth[m.ID]
	if f == nil {
		f = &fact{}
		w.truth[m.ID] = f
	}
	f.member, f.present = m, true
	f.number++
	v := &View{world: w, self: m.ID, heard: map[member.ID]fact{}, changed: make(chan struct{})}
	for id, f := range w.truth {
		if id == m.ID || !w.deaf[[2]member.ID{m.ID, id}] {
			v.heard[id] = *f
		}
	}
	w.views[m.ID] = v
	w.spreadLocked(m.ID)
	return v
}

// Part ends a member: it has left, or the others have found out that it is dead. Its own
// View stays as it is.
func (w *World) Part(id member.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.truth[id]; f != nil && f.present {
		f.present = false
		f.number++
		delete(w.views, id)
		w.spreadLocked(id)
	}
}

// See makes one node see another in a way that may be wrong, at once, until the next See.
func (w *World) See(viewer, subject member.ID, s Sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sights[[2]member.ID{viewer, subject}] = s
	if v := w.views[viewer]; v != nil {
		v.tellLocked()
	}
}

// Deafen keeps news of a speaker from a listener, until Deafen with false: then it hears
// the latest, in its time.
func (w *World) Deafen(listener, speaker member.ID, deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf[[2]member.ID{listener, speaker}] = deaf
	if !deaf {
		w.newsLocked(listener, speaker)
	}
}

// Settle ends all lies and deafness. News still take their time.
func (w *World) Settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.sights)
	clear(w.deaf)
	for id := range w.truth {
		w.spreadLocked(id)
	}
	for _, v := range w.views {
		v.tellLocked()
	}
}

func (w *World) spreadLocked(speaker member.ID) {
	ids := make([]member.ID, 0, len(w.views))
	for id := range w.views {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b member.ID) int { return bytes.Compare(a[:], b[:]) }) // draws are to come in one order
	for _, listener := range ids {
		w.newsLocked(listener, speaker)
	}
}

// newsLocked sends what a node has said last on its way to another.
func (w *World) newsLocked(listener, speaker member.ID) {
	v, f := w.views[listener], w.truth[speaker]
	if v == nil || f == nil || w.deaf[[2]member.ID{listener, speaker}] {
		return
	}
	news := *f
	if listener == speaker || w.lagMax == 0 {
		v.hearLocked(news)
		return
	}
	lag := w.lagMin
	if w.lagMax > w.lagMin {
		lag += time.Duration(w.rng.Int64N(int64(w.lagMax - w.lagMin)))
	}
	time.AfterFunc(lag, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.deaf[[2]member.ID{listener, speaker}] {
			v.hearLocked(news)
		}
	})
}

// View is the world as one node sees it.
type View struct {
	world *World
	self  member.ID

	// guarded by World.mu
	heard   map[member.ID]fact
	changed chan struct{}
}

var _ member.Membership = (*View)(nil)

func (v *View) hearLocked(f fact) {
	if old, known := v.heard[f.member.ID]; known && old.number >= f.number {
		return
	}
	v.heard[f.member.ID] = f
	v.tellLocked()
}

func (v *View) tellLocked() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Members are those that this node believes in, itself included, by rising ID.
func (v *View) Members() []member.Member {
	w := v.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []member.Member
	for id, f := range v.heard {
		m := f.member
		m.Self = id == v.self
		s := w.sights[[2]member.ID{v.self, id}]
		if !m.Self && (!f.present || s == Absent) {
			continue
		}
		m.Suspect = !m.Self && s == Suspect
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b member.Member) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return out
}

// Changed is closed at the next change of what Members says.
func (v *View) Changed() <-chan struct{} {
	v.world.mu.Lock()
	defer v.world.mu.Unlock()
	return v.changed
}

// Announce changes what this node says of itself.
func (v *View) Announce(state member.State, capacityBytes, freeBytes int64) {
	w := v.world
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.truth[v.self]
	if w.views[v.self] != v { // it is dead, or was started again
		return
	}
	f.member.State, f.member.CapacityBytes, f.member.FreeBytes = state, capacityBytes, freeBytes
	f.number++
	w.spreadLocked(v.self)
}
