package evict

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slow is a hazard or S3-FIFO policy of slices and maps: per level and queue a list,
// oldest first, and a last one of blocks set aside. Rates are those of the policy under
// test; they have a test of their own.
type slow struct {
	hazard  bool
	rates   *rates
	lists   [levels][][]Handle
	blocks  map[Handle]*slowBlock
	ghosts  map[[16]byte]slowBlock
	pending Handle
}

type slowBlock struct {
	uses, depth   int
	last, partial bool
	joined, aside bool
	sampled       bool
	main          bool
	level         int
	parent        Handle
	kids          int
	tick          uint32
}

func newSlow(hazard bool, r *rates) *slow {
	m := &slow{hazard: hazard, rates: r, blocks: map[Handle]*slowBlock{}, ghosts: map[[16]byte]slowBlock{}}
	for l := range m.lists {
		m.lists[l] = make([][]Handle, listsPerLevel)
	}
	return m
}

func (m *slow) queue(b *slowBlock) int {
	switch {
	case !m.hazard && b.main:
		return 1
	case !m.hazard:
		return 0
	case b.partial:
		return partialClass
	case b.last:
		return lastClass
	}
	return min(b.uses, 4) - 1 + 4*int(stageOf(uint32(b.depth)))
}

func (m *slow) take(h Handle) {
	for l := range m.lists {
		for q, list := range m.lists[l] {
			if i := slices.Index(list, h); i >= 0 {
				m.lists[l][q] = slices.Delete(list, i, i+1)
			}
		}
	}
	m.blocks[h].aside = false
}

func (m *slow) push(h Handle) {
	b := m.blocks[h]
	list := &m.lists[b.level][m.queue(b)]
	*list = append(*list, h)
}

func (m *slow) orphan(h Handle) Handle {
	p := m.blocks[h].parent
	m.blocks[h].parent = 0
	b := m.blocks[p]
	if b == nil {
		return 0
	}
	if b.kids == 0 {
		return p
	}
	if b.kids--; b.kids == 0 && b.aside {
		m.take(p)
		list := &m.lists[b.level][m.queue(b)]
		*list = slices.Insert(*list, 0, p)
	}
	return p
}

// use is Admit (fresh) and Touch.
func (m *slow) use(h Handle, a Access, fresh bool) {
	b := m.blocks[h]
	next := m.blocks[a.Next]
	if fresh {
		b = &slowBlock{}
		m.blocks[h] = b
		next = m.blocks[a.Next]
	} else if m.hazard || levelOf(a) != b.level || a.Moved {
		m.take(h)
	}
	moves := fresh || m.hazard || levelOf(a) != b.level || a.Moved
	if !a.Moved || fresh {
		if next != nil && a.Next != h {
			if next.parent != h || fresh {
				if next.parent != h && next.parent != 0 {
					m.orphan(a.Next)
				}
				next.parent = h
				b.kids++
			}
		}
		if a.Next != 0 {
			b.joined = a.Joined
		}
		if m.pending == h {
			m.pending = 0
		}
	}
	b.level = levelOf(a)
	if g, known := m.ghosts[a.ID]; fresh && known {
		b.uses, b.main = g.uses, true
		delete(m.ghosts, a.ID)
	}
	if m.hazard {
		b.depth = int(a.Depth)
		if !a.Moved {
			b.uses++
		}
		if next != nil {
			b.uses = max(b.uses, min(next.uses, 4))
		}
		b.uses = min(b.uses, 4)
		b.last = b.last || fresh && a.Behind == 0
		b.partial = b.partial || a.Partial
		b.sampled = b.sampled || a.Depth%sampleEach == sampleEach-1 || a.Behind < sampleEnds
		b.tick = tickOf(a.NowNS)
	} else if fresh {
		b.uses = 0
	} else if !a.Moved {
		b.uses = min(b.uses+1, 3)
	}
	if moves {
		m.push(h)
	}
}

func (m *slow) remove(h Handle, id [16]byte, evicted bool) {
	b := *m.blocks[h]
	if evicted && (m.hazard && b.sampled || !m.hazard && !b.main) {
		if m.hazard && (b.last || b.partial) {
			b.uses = 1
		}
		m.ghosts[id] = b
	}
	m.take(h)
	p := m.orphan(h)
	if m.pending == h {
		m.pending = 0
	} else if evicted && p != 0 && m.blocks[p].joined {
		m.pending = p
	}
	delete(m.blocks, h)
	if len(m.blocks) == 0 {
		m.pending = 0
	}
}

// leaf is the oldest without children; those before it are set aside.
func (m *slow) leaf(level, queue int) (Handle, bool) {
	for len(m.lists[level][queue]) > 0 {
		h := m.lists[level][queue][0]
		if m.blocks[h].kids == 0 {
			return h, true
		}
		m.lists[level][queue] = m.lists[level][queue][1:]
		m.blocks[h].aside = true
		m.lists[level][listsPerLevel-1] = append(m.lists[level][listsPerLevel-1], h)
	}
	return 0, false
}

func (m *slow) victim() (Handle, bool) {
	for level := range levels {
		if p := m.blocks[m.pending]; p != nil && p.level == level && p.kids == 0 {
			return m.pending, true
		}
		first := m.byQueue
		if m.hazard {
			first = m.byRate
		}
		if h, ok := first(level); ok {
			return h, true
		}
		if aside := m.lists[level][listsPerLevel-1]; len(aside) > 0 {
			return aside[0], true
		}
	}
	return 0, false
}

func (m *slow) byRate(level int) (best Handle, found bool) {
	least := math.Inf(1)
	for class := range classes {
		h, ok := m.leaf(level, class)
		if !ok {
			continue
		}
		tick := m.blocks[h].tick
		if rate := m.rates.rate[class][m.rates.bucket(m.rates.now-tick)]; rate < least || rate == least && tick < m.blocks[best].tick {
			best, least, found = h, rate, true
		}
	}
	return best, found
}

func (m *slow) byQueue(level int) (Handle, bool) {
	for {
		small := m.lists[level][0]
		main, inMain := m.leaf(level, 1)
		inAll, mains := 0, 0
		for _, b := range m.blocks {
			if b.level == level {
				inAll++
				if b.main {
					mains++
				}
			}
		}
		switch {
		case len(small) == 0 && !inMain:
			return 0, false
		case inMain && (len(small) == 0 || mains*10 > inAll*9):
			if m.blocks[main].uses == 0 {
				return main, true
			}
			m.take(main)
			m.blocks[main].uses--
			m.push(main)
		case m.blocks[small[0]].uses < 2 && m.blocks[small[0]].kids == 0:
			return small[0], true
		default:
			h := small[0]
			m.take(h)
			m.blocks[h].uses, m.blocks[h].main = 0, true
			m.push(h)
		}
	}
}

// TestAgainstSlowModels: two policies of one factory, whose handles wander between
// them, name the victims of slices and maps.
func TestAgainstSlowModels(t *testing.T) {
	for _, name := range []string{Hazard, S3FIFO} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { againstSlow(t, name) })
		})
	}
}

func againstSlow(t *rapid.T, name string) {
	const most = 24
	factory, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := factory(most)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Free()
	var r *rates
	if h, ok := f.(*hazards); ok {
		r = h.rates
		h.ghosts.entries = nil // the model's have no bound; those of the policy have a test of their own
	} else {
		f.(*s3fifos).ghosts.entries = nil
	}
	policies := []Policy{f.New(), f.New()}
	models := []*slow{newSlow(name == Hazard, r), newSlow(name == Hazard, r)}
	now := int64(0)
	ids := map[Handle][16]byte{}
	holder := func(h Handle) int {
		return slices.IndexFunc(models, func(m *slow) bool { return m.blocks[h] != nil })
	}
	draw := func(t *rapid.T) (Handle, int, Access) {
		h := Handle(rapid.IntRange(1, most).Draw(t, "h"))
		a := Access{NowNS: now, Depth: rapid.Uint32Range(0, 40).Draw(t, "depth"), Behind: rapid.Uint32Range(0, 6).Draw(t, "behind"),
			Importance: rapid.SampledFrom([]uint8{0, 0, 0, 1, 3, 255}).Draw(t, "importance"), Joined: rapid.Bool().Draw(t, "joined"),
			Partial: rapid.IntRange(0, 5).Draw(t, "partial") == 0}
		a.ID[0], a.ID[8] = byte(h), byte(h)
		if rapid.Bool().Draw(t, "chained") {
			a.Next = Handle(rapid.IntRange(1, most).Draw(t, "next"))
			if a.Next == h || a.Next < h { // a tree: parents have lower numbers
				a.Next = 0
			}
		}
		return h, holder(h), a
	}
	remove := func(h Handle, i int, evicted bool) {
		if evicted {
			policies[i].Evicted(h, ids[h])
		} else {
			policies[i].Forget(h)
		}
		models[i].remove(h, ids[h], evicted)
		models[i].ghosts = map[[16]byte]slowBlock{} // see above
	}
	t.Repeat(map[string]func(*rapid.T){
		"use": func(t *rapid.T) {
			h, i, a := draw(t)
			if i < 0 {
				i = rapid.IntRange(0, 1).Draw(t, "policy")
				policies[i].Admit(h, a)
				models[i].use(h, a, true)
				ids[h] = a.ID
				return
			}
			a.Moved = rapid.IntRange(0, 4).Draw(t, "moved") == 0
			policies[i].Touch(h, a)
			models[i].use(h, a, false)
		},
		"evict": func(t *rapid.T) {
			i := rapid.IntRange(0, 1).Draw(t, "policy")
			if h, ok := policies[i].Victim(); ok {
				if want, _ := models[i].victim(); h != want {
					t.Fatalf("victim %d, want %d", h, want)
				}
				remove(h, i, true)
			}
		},
		"remove": func(t *rapid.T) {
			if h, i, _ := draw(t); i >= 0 {
				remove(h, i, rapid.Bool().Draw(t, "evicted"))
			} else {
				mustPanic(t, "forget what none holds", func() { policies[0].Forget(h) })
				mustPanic(t, "touch what none holds", func() { policies[1].Touch(h, Access{}) })
			}
		},
		"time": func(t *rapid.T) { now += rapid.Int64Range(0, 200e9).Draw(t, "ns") },
		"": func(t *rapid.T) {
			for i, p := range policies {
				got, ok := p.Victim()
				want, wantOK := models[i].victim()
				if got != want || ok != wantOK || p.Len() != len(models[i].blocks) {
					t.Fatalf("policy %d: victim %d %v of %d, want %d %v of %d", i, got, ok, p.Len(), want, wantOK, len(models[i].blocks))
				}
			}
		},
	})
}

// TestRatesAgainstLedger: exposure and events are those of a list of all blocks, looked
// at tick by tick.
func TestRatesAgainstLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type watched struct {
			class int
			tick  uint32
		}
		r, all := newRates(), []watched{}
		var events, exposure [classes][ageBuckets]float64
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				w := watched{rapid.IntRange(0, classes-1).Draw(t, "class"), r.now - rapid.Uint32Range(0, 9000).Draw(t, "age")}
				r.add(w.class, w.tick)
				all = append(all, w)
			},
			"end": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "i")
				w := all[i]
				all = slices.Delete(all, i, i+1)
				if rapid.Bool().Draw(t, "used") {
					r.use(w.class, w.tick)
					events[w.class][r.bucket(r.now-w.tick)]++
				} else {
					r.drop(w.class, w.tick)
				}
			},
			"time": func(t *rapid.T) {
				to := r.now + rapid.SampledFrom([]uint32{1, 1, 1, 2, 2, 5, 5, 40, 40, 40, 300, 300, 300, 9000}).Draw(t, "ticks")
				for now := r.now; now < to; now++ {
					for _, w := range all {
						exposure[w.class][r.bucket(now-w.tick)] += tickSeconds
					}
					if stepped := now-r.now <= ageTicksMax; stepped && (now+1)%halfLifeTicks == 0 {
						for c := range classes {
							for b := range ageBuckets {
								events[c][b] /= 2
								exposure[c][b] /= 2
							}
						}
					}
				}
				r.advance(to)
			},
			"": func(t *rapid.T) {
				for c := range classes {
					for b := range ageBuckets {
						if math.Abs(r.exposure[c][b]-exposure[c][b]) > 1e-6*(1+exposure[c][b]) || math.Abs(r.events[c][b]-events[c][b]) > 1e-9 {
							t.Fatalf("class %d bucket %d: %v events in %v s, want %v in %v", c, b, r.events[c][b], r.exposure[c][b], events[c][b], exposure[c][b])
						}
					}
				}
			},
		})
	})
}

// TestGhosts: as many as blocks held at most, each with what it was given, and the one
// used longest ago goes first.
func TestGhosts(t *testing.T) {
	g, err := newGhosts(1000)
	if err != nil {
		t.Fatal(err)
	}
	defer g.free()
	dropped := 0
	g.dropped = func(int, uint32) { dropped++ }
	id := func(n int) (id [16]byte) {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		binary.LittleEndian.PutUint64(id[:], random.Uint64())
		binary.LittleEndian.PutUint64(id[8:], random.Uint64())
		return id
	}
	if x := id(1); g.add(&x, 1, 1) {
		t.Fatal("a ghost without a block held")
	}
	for held := 1; held <= 1000; held++ {
		g.fit(held)
		if g.buckets*ghostWays > held || held >= 64 && g.buckets*ghostWays < held*8/10 {
			t.Fatalf("room for %d ghosts of %d blocks", g.buckets*ghostWays, held)
		}
	}
	for n := 1; n <= 1000; n++ {
		x := id(n)
		g.add(&x, n%classes, uint32(n))
	}
	if g.kept < 300 || g.kept+dropped > 1000 {
		t.Fatalf("%d ghosts, %d dropped of 1000", g.kept, dropped)
	}
	found := 0
	for n := 1; n <= 1000; n++ {
		x := id(n)
		if class, tick, ok := g.take(&x); ok {
			found++
			if class != n%classes || tick != uint32(n) {
				t.Errorf("ghost %d: class %d, tick %d", n, class, tick)
			}
		}
	}
	if g.kept != 0 || found < 300 {
		t.Errorf("%d ghosts found, %d left", found, g.kept)
	}
}
