package evict

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive is the LRU as a slice per importance, oldest first.
type naive [levels][]Handle

func (m *naive) remove(h Handle) bool {
	for i := range m {
		if at := slices.Index(m[i], h); at >= 0 {
			m[i] = slices.Delete(m[i], at, at+1)
			return true
		}
	}
	return false
}

func (m *naive) add(h Handle, importance uint8) {
	i := min(int(importance), levels-1)
	m[i] = append(m[i], h)
}

// order is every block in the order of eviction.
func (m *naive) order() []Handle { return slices.Concat(m[0], m[1], m[2], m[3]) }

func newLRUs(t fataler, most int) *lrus {
	t.Helper()
	f, err := NewLRU(most)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return f.(*lrus)
}

// TestLRUsAgainstSlices: several LRUs of one factory, which take each other's
// handles over, do what slices do.
func TestLRUsAgainstSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxBlocks := rapid.IntRange(0, 20).Draw(t, "max")
		f := newLRUs(t, maxBlocks)
		defer f.Free()
		all := make([]*lru, rapid.IntRange(1, 4).Draw(t, "lrus"))
		for i := range all {
			all[i] = f.New().(*lru)
		}
		models := make([]naive, len(all))
		handle := rapid.Map(rapid.IntRange(0, maxBlocks), func(h int) Handle { return Handle(h) })
		which := rapid.IntRange(0, len(all)-1)
		access := rapid.Map(rapid.Uint8Range(0, 5), func(i uint8) Access { return Access{Importance: i} })
		// holder is the LRU that holds h, or -1.
		holder := func(h Handle) int {
			return slices.IndexFunc(models, func(m naive) bool { return slices.Contains(m.order(), h) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				h, a, i := handle.Draw(t, "h"), access.Draw(t, "access"), which.Draw(t, "lru")
				if holder(h) >= 0 {
					mustPanic(t, "admit what one holds", func() { all[i].Admit(h, a) })
					return
				}
				all[i].Admit(h, a)
				models[i].add(h, a.Importance)
			},
			"touch": func(t *rapid.T) {
				h, a := handle.Draw(t, "h"), access.Draw(t, "access")
				i := holder(h)
				if i < 0 {
					mustPanic(t, "touch what none holds", func() { all[0].Touch(h, a) })
					return
				}
				all[i].Touch(h, a)
				models[i].remove(h)
				models[i].add(h, a.Importance)
			},
			"remove": func(t *rapid.T) {
				h := handle.Draw(t, "h")
				i := holder(h)
				remove := all[max(i, 0)].Forget
				if rapid.Bool().Draw(t, "evicted") {
					remove = func(h Handle) { all[max(i, 0)].Evicted(h, [16]byte{}) }
				}
				if i < 0 {
					mustPanic(t, "remove what none holds", func() { remove(h) })
					return
				}
				remove(h)
				models[i].remove(h)
			},
			"evict": func(t *rapid.T) {
				i := which.Draw(t, "lru")
				if h, ok := all[i].Victim(); ok {
					all[i].Evicted(h, [16]byte{})
					models[i].remove(h)
				}
			},
			"drain": func(t *rapid.T) {
				i := which.Draw(t, "lru")
				for _, want := range models[i].order() {
					if got, ok := all[i].Victim(); !ok || got != want {
						t.Fatalf("victim %d %v, want %d", got, ok, want)
					}
					all[i].Evicted(want, [16]byte{})
				}
				models[i] = naive{}
			},
			"drop": func(t *rapid.T) { // as a namespace goes: its blocks in any order, then another LRU in its place
				i := which.Draw(t, "lru")
				for _, h := range rapid.Permutation(models[i].order()).Draw(t, "order") {
					all[i].Forget(h)
				}
				all[i], models[i] = f.New().(*lru), naive{}
			},
			"": func(t *rapid.T) {
				held := 0
				for i, l := range all {
					checkLRU(t, l, &models[i])
					held += l.Len()
				}
				for h := range f.next {
					if f.next[h] != 0 || f.prev[h] != 0 {
						held--
					}
				}
				if held != 0 {
					t.Fatalf("%d more blocks held than linked", held)
				}
			},
		})
	})
}

func checkLRU(t *rapid.T, l *lru, m *naive) {
	want := m.order()
	if l.Len() != len(want) {
		t.Fatalf("Len %d, want %d", l.Len(), len(want))
	}
	got, ok := l.Victim()
	if ok != (len(want) > 0) || ok && got != want[0] {
		t.Fatalf("victim %d %v, want order %v", got, ok, want)
	}
	var forth, back []Handle
	for i := levels - 1; i >= 0; i-- {
		for n := l.youngest[i]; n >= l.first; n = l.next[n-l.first] {
			back = append(back, Handle(n-l.first))
		}
	}
	for i := range levels {
		for n := l.oldest[i]; n >= l.first; n = l.prev[n-l.first] {
			forth = append(forth, Handle(n-l.first))
		}
	}
	slices.Reverse(back)
	if !slices.Equal(forth, want) || !slices.Equal(back, want) {
		t.Fatalf("order forth %v, back %v, want %v", forth, back, want)
	}
}

func TestTailFirstChainShrinksFromItsLeaf(t *testing.T) {
	const depth = 10
	f := newLRUs(t, 2*depth)
	defer f.Free()
	l := f.New()
	for round := range 2 {
		for d := depth - 1; d >= 0; d-- { // leaf before its parent
			if h := Handle(d + 1); round == 0 {
				l.Admit(h, Access{Depth: uint32(d)})
			} else {
				l.Touch(h, Access{Depth: uint32(d)})
			}
		}
	}
	for d := depth - 1; d >= 0; d-- {
		h, ok := l.Victim()
		if !ok || h != Handle(d+1) {
			t.Fatalf("victim %d %v, want the leaf %d", h, ok, d+1)
		}
		l.Evicted(h, [16]byte{})
	}
}

func TestLRURefusesHandlesBeyondMax(t *testing.T) {
	const maxBlocks = 100
	f := newLRUs(t, maxBlocks)
	defer f.Free()
	l := f.New()
	for h := Handle(0); h <= maxBlocks; h++ {
		l.Admit(h, Access{})
	}
	mustPanic(t, "beyond max", func() { l.Admit(maxBlocks+1, Access{}) })
	mustPanic(t, "far beyond max", func() { l.Touch(math.MaxUint32, Access{}) })
	for _, most := range []int{-1, maxBlocksMax + 1} {
		if f, err := NewLRU(most); err == nil || f != nil {
			t.Errorf("an LRU of %d blocks: %v, %v", most, f, err)
		}
	}
}

// TestManyLRUsAreNoLarger: 128 LRUs whose handles lie scattered over the whole
// range take no more memory than one.
func TestManyLRUsAreNoLarger(t *testing.T) {
	const maxBlocks, many = 1_000_000, 128
	f := newLRUs(t, maxBlocks)
	defer f.Free()
	bytes := 4 * (len(f.prev) + len(f.next))
	if perBlock := float64(bytes) / maxBlocks; perBlock > 8.01 {
		t.Fatalf("%.3f bytes a block, want 8", perBlock)
	}
	before := residentBytes(t)
	var all []Policy
	for range many {
		all = append(all, f.New())
	}
	for h := range Handle(maxBlocks) {
		all[h%many].Admit(h, Access{})
	}
	// An array of its own for each would be a thousand million bytes.
	if grown := residentBytes(t) - before; grown > 2*bytes+64<<20 {
		t.Fatalf("%d bytes more are resident, the lists have %d", grown, bytes)
	}
	for i, l := range all {
		if l.Len() != maxBlocks/many && l.Len() != maxBlocks/many+1 {
			t.Fatalf("LRU %d holds %d blocks", i, l.Len())
		}
	}
}

// residentBytes is how much private memory of this process is resident.
func residentBytes(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	kib, _, ok := strings.Cut(strings.TrimSpace(rest), " kB")
	n, err := strconv.Atoi(kib)
	if !ok || err != nil {
		t.Skip("the system does not tell: ", err)
	}
	return n << 10
}

func TestLRUAllocatesNothing(t *testing.T) {
	f := newLRUs(t, 10)
	defer f.Free()
	l := f.New()
	allocs := testing.AllocsPerRun(100, func() {
		l.Admit(1, Access{})
		l.Touch(1, Access{Importance: 2})
		h, _ := l.Victim()
		l.Evicted(h, [16]byte{})
	})
	if allocs != 0 {
		t.Fatalf("%v allocations, want 0", allocs)
	}
}

func BenchmarkLRUTouch(b *testing.B) {
	for _, blocks := range []uint32{1 << 10, 1 << 20, 1 << 22} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			f := newLRUs(b, int(blocks))
			defer f.Free()
			l := f.New()
			for h := range blocks {
				l.Admit(Handle(h), Access{})
			}
			at := uint32(1)
			for b.Loop() {
				at = (at*5 + 1) % blocks // visits all, scattered
				l.Touch(Handle(at), Access{})
			}
		})
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func mustPanic(t fataler, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatalf("%s: no panic", what)
		}
	}()
	f()
}
