package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// flipSeed decides which bytes are flipped, and how.
const flipSeed = 1

// Blocks of the store that is damaged.
const (
	flipBlocks    = 70 // of namespace a
	flipOddBlocks = 20 // of namespace b, which leaves a part of each slot unused
	flipDeleted   = 5  // of namespace a
)

// livedStore is what a store leaves that was open several times: used and free
// slots, written and empty directories, recycled log files, an older manifest.
func livedStore(t *testing.T, open func(engine.Options) *engine.Store, last func(*engine.Store)) {
	t.Helper()
	for life := range 3 {
		s := open(engine.Options{CapacityBytes: 3 << 20, SegmentBytes: 256 << 10})
		a, b := namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes)
		durable := engine.PutOptions{Durability: engine.Durable}
		all(t, put(t, a, durable, sequence(0, flipBlocks-4+2*life)...), engine.Stored, engine.Present)
		all(t, put(t, b, durable, sequence(0, flipOddBlocks-4+2*life)...), engine.Stored, engine.Present)
		if _, err := a.Delete([]engine.Key{key(flipDeleted)}); err != nil {
			t.Fatal(err)
		}
		if life < 2 {
			must(t, s.Close())
			continue
		}
		last(s)
	}
}

// flips is one damaged store after another.
type flips struct {
	t       *testing.T
	m       medium
	rng     *rand.Rand
	killed  bool // the store was killed, not closed
	sound   engine.CheckReport
	flipMap flipMap
	opened  map[string]int // by kind of byte
	checked map[string]int
}

func newFlips(t *testing.T, m medium, killed bool) *flips {
	f := &flips{t: t, m: m, killed: killed, rng: rand.New(rand.NewPCG(flipSeed, 8)), opened: map[string]int{}, checked: map[string]int{},
		flipMap: flipMap{t: t, used: map[string]bool{}}}
	var faults []engine.Fault
	if f.sound, faults = m.check(engine.CheckOptions{}); len(faults) > 0 || f.sound.Clean == killed {
		t.Fatalf("before: %+v\n%s", f.sound, show(faults))
	}
	s, err := m.fork().open()
	must(t, err)
	for name, bytes := range map[string]int{"a": 4096, "b": oddBytes} {
		must(t, namespace(t, s, name, bytes).List(func(e engine.Entry) bool {
			f.flipMap.used[e.Place.String()] = true
			return true
		}))
	}
	must(t, s.Close())
	if want := flipBlocks - 1 + flipOddBlocks; f.sound.Blocks != want || len(f.flipMap.used) != want {
		t.Fatalf("%d blocks checked, %d listed, want %d", f.sound.Blocks, len(f.flipMap.used), want)
	}
	for _, name := range m.names() {
		if _, of, ok := strings.Cut(name, "marker.manifest."); ok {
			f.flipMap.manifest = of[strings.Index(of, ".")+1:]
		}
	}
	return f
}

// group is all bytes of one kind in one file.
type group struct {
	fate
	spans []span
	bytes int64
}

// at is the offset of the nth byte.
func (g *group) at(n int64) int64 {
	for _, s := range g.spans {
		if n < s.to-s.from {
			return s.from + n
		}
		n -= s.to - s.from
	}
	panic("beyond the end")
}

// groups covers a file.
func (f *flips) groups(name string) (groups []*group) {
	raw := f.m.read(name)
	spans := f.flipMap.spans(name, raw)
	f.flipMap.tiles(name, spans, int64(len(raw)))
	byWhat := map[string]*group{}
	for _, s := range spans {
		g := byWhat[s.what]
		if g == nil {
			g = &group{fate: s.fate}
			byWhat[s.what] = g
			groups = append(groups, g)
		}
		g.spans = append(g.spans, s)
		g.bytes += s.to - s.from
	}
	return groups
}

// sample chooses bytes of a group: the first, the last, and random ones; all of
// a small file in the long form.
func (f *flips) sample(g *group, n int) (spots []int64) {
	if long() {
		n = 500
	}
	if int64(n) >= g.bytes || long() && g.bytes <= 8192 {
		for i := range g.bytes {
			spots = append(spots, g.at(i))
		}
		return spots
	}
	for i := range n {
		nth := f.rng.Int64N(g.bytes)
		switch i {
		case 0:
			nth = 0
		case 1:
			nth = g.bytes - 1
		}
		spots = append(spots, g.at(nth))
	}
	return spots
}

// flip changes one byte, wants a check to find it, and, if open, wants the store
// to survive it.
func (f *flips) flip(name string, at int64, g *fate, open bool) {
	t := f.t
	mask := byte(1 + f.rng.IntN(255))
	if f.killed { // what more than one bit changed may look torn
		mask = 1 << f.rng.IntN(8)
	}
	where := fmt.Sprintf("seed %d: %s, byte %d, mask %#02x (%s)", flipSeed, name, at, mask, g.what)
	f.m.flip(name, at, mask)
	defer f.m.flip(name, at, mask)
	report, faults := f.m.check(engine.CheckOptions{})
	f.checked[g.what]++
	switch {
	case g.nothing:
		if report.Blocks != f.sound.Blocks || report.Lost > f.sound.Lost {
			t.Errorf("%s: it holds nothing, and blocks are lost: %+v\n%s", where, report, show(faults))
		}
	case report.Damage == 0 && !(f.killed && g.torn):
		t.Errorf("%s: not found: %+v\n%s", where, report, show(faults))
	}
	if open {
		f.opened[g.what]++
		f.survives(where, g)
	}
}

// survives opens a copy of the damaged store.
func (f *flips) survives(where string, g *fate) {
	t, m := f.t, f.m.fork()
	s, err := m.open()
	if err != nil {
		damaged := errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrNotAStore) || errors.Is(err, engine.ErrVersion)
		if !g.refuses || !damaged {
			t.Errorf("%s: open: %v", where, err)
		}
		if g.what == "store file" {
			return
		}
		m.check(engine.CheckOptions{Rebuild: true})
		// After a kill, what was put since the directories were written is lost.
		rebuilt := fate{what: g.what, misses: f.killed, torn: g.torn}
		f.outlives(where, m, &rebuilt, nil)
		return
	}
	f.outlives(where, m, g, s)
}

// outlives wants right answers from a store, open as s or not yet, and the
// verdict of a check after its close that the fate tells.
func (f *flips) outlives(where string, m medium, g *fate, s *engine.Store) {
	t := f.t
	if s == nil {
		var err error
		if s, err = m.open(); err != nil {
			t.Errorf("%s: open: %v", where, err)
			return
		}
	}
	lost := -1 // the deleted one
	for name, n := range map[string]int{"a": flipBlocks, "b": flipOddBlocks} {
		bytes := 4096
		if name == "b" {
			bytes = oddBytes
		}
		got := get(t, namespace(t, s, name, bytes), sequence(0, n)...) // compares the bytes of hits
		for _, status := range got {
			if status != engine.Hit {
				lost++
			}
		}
		if name == "a" && got[flipDeleted] == engine.Hit {
			t.Errorf("%s: the deleted block came back", where)
		}
	}
	if lost > 0 && !g.misses && !(f.killed && g.torn) || g.what == "block" && lost != 1 {
		t.Errorf("%s: %d blocks are lost", where, lost)
	}
	must(t, s.Close())
	report, faults := m.check(engine.CheckOptions{})
	if found := report.Damage > 0; !g.mayStay && found != g.stays || report.Notices > 0 {
		t.Errorf("%s: after open and close: %+v\n%s", where, report, show(faults))
	}
}

// all flips bytes of every file of the directory: n of each kind in each file.
// One in every few is opened; every kind is.
func (f *flips) all(n, every int) {
	began := time.Now()
	for _, name := range f.m.names() {
		for _, g := range f.groups(name) {
			for i, at := range f.sample(g, n) {
				f.flip(name, at, &g.fate, f.opened[g.what] == 0 || i%every == every-1)
				if f.t.Failed() && f.checked[g.what] > 20 {
					return
				}
			}
		}
	}
	if report, faults := f.m.check(engine.CheckOptions{}); len(faults) > 0 {
		f.t.Errorf("after: %+v\n%s", report, show(faults))
	}
	f.t.Logf("seed %d, %v; flips: %v; opened: %v", flipSeed, time.Since(began), f.checked, f.opened)
}

// TestEveryFlip: one flipped byte, in any file of a store's directory, is found
// by a check unless it is one that holds nothing; the store opens nevertheless,
// or refuses as damaged, and answers nothing wrong.
func TestEveryFlip(t *testing.T) {
	if raced && testing.Short() {
		t.Skip("under the race detector in the long form only")
	}
	n := 50
	if testing.Short() {
		n = 5
	}
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "closed", true: "killed"}[killed], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sim.Config{Seed: flipSeed})
				livedStore(t, r.open, func(s *engine.Store) {
					if killed {
						time.Sleep(3 * time.Second)
						r.kill(s)
						return
					}
					mustClose(t, s)
				})
				newFlips(t, simMedium{r}, killed).all(n, 25)
			})
		})
	}
}

// TestEveryFlipInADirectory: the same in a real one, a few flips of each kind.
func TestEveryFlipInADirectory(t *testing.T) {
	dir := t.TempDir()
	open := func(o engine.Options) *engine.Store { return openTemp(t, dir, o) }
	livedStore(t, open, func(s *engine.Store) { mustClose(t, s) })
	f := newFlips(t, dirMedium{t, dir}, false)
	for _, name := range f.m.names() {
		for _, g := range f.groups(name) {
			for _, at := range f.sample(g, 1) {
				if f.checked[g.what] == 0 || long() && f.rng.IntN(10) == 0 {
					f.flip(name, at, &g.fate, true)
				}
			}
		}
	}
	f.t.Logf("flips: %v", f.checked)
}
