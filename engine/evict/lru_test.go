package evict

import (
	"fmt"
	"slices"
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

func TestLRUAgainstSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxBlocks := rapid.IntRange(0, 20).Draw(t, "max")
		l := NewLRU(maxBlocks)
		defer Free(l)
		var m naive
		handle := rapid.Map(rapid.IntRange(0, maxBlocks), func(h int) Handle { return Handle(h) })
		importance := rapid.Uint8Range(0, 5)
		held := func(h Handle) bool { return slices.Contains(m.order(), h) }
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				h, a := handle.Draw(t, "h"), Access{Importance: importance.Draw(t, "importance")}
				if held(h) {
					mustPanic(t, "admit twice", func() { l.Admit(h, a) })
					return
				}
				l.Admit(h, a)
				m.add(h, a.Importance)
			},
			"touch": func(t *rapid.T) {
				h, a := handle.Draw(t, "h"), Access{Importance: importance.Draw(t, "importance")}
				if !m.remove(h) {
					mustPanic(t, "touch not held", func() { l.Touch(h, a) })
					return
				}
				l.Touch(h, a)
				m.add(h, a.Importance)
			},
			"remove": func(t *rapid.T) {
				h := handle.Draw(t, "h")
				remove := l.Forget
				if rapid.Bool().Draw(t, "evicted") {
					remove = l.Evicted
				}
				if !m.remove(h) {
					mustPanic(t, "remove not held", func() { remove(h) })
					return
				}
				remove(h)
			},
			"evict": func(t *rapid.T) {
				if h, ok := l.Victim(); ok {
					l.Evicted(h)
					m.remove(h)
				}
			},
			"drain": func(t *rapid.T) {
				for _, want := range m.order() {
					if got, ok := l.Victim(); !ok || got != want {
						t.Fatalf("victim %d %v, want %d", got, ok, want)
					}
					l.Evicted(want)
				}
				m = naive{}
			},
			"": func(t *rapid.T) { checkLRU(t, l.(*LRU), &m) },
		})
	})
}

func checkLRU(t *rapid.T, l *LRU, m *naive) {
	want := m.order()
	if l.Len() != len(want) {
		t.Fatalf("Len %d, want %d", l.Len(), len(want))
	}
	got, ok := l.Victim()
	if ok != (len(want) > 0) || ok && got != want[0] {
		t.Fatalf("victim %d %v, want order %v", got, ok, want)
	}
	var forth, back []Handle
	for s := uint32(firstNode) - 1; s >= firstSentinel; s-- {
		for n := l.next[s]; n != s; n = l.next[n] {
			back = append(back, Handle(n-firstNode))
		}
	}
	for s := uint32(firstSentinel); s < firstNode; s++ {
		for n := l.prev[s]; n != s; n = l.prev[n] {
			forth = append(forth, Handle(n-firstNode))
		}
	}
	slices.Reverse(back)
	if !slices.Equal(forth, want) || !slices.Equal(back, want) {
		t.Fatalf("order forth %v, back %v, want %v", forth, back, want)
	}
}

func TestTailFirstChainShrinksFromItsLeaf(t *testing.T) {
	const depth = 10
	l := NewLRU(2 * depth)
	defer Free(l)
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
		l.Evicted(h)
	}
}

func TestLRURefusesHandlesBeyondMax(t *testing.T) {
	const maxBlocks = 100
	l := NewLRU(maxBlocks)
	defer Free(l)
	for h := Handle(0); h <= maxBlocks; h++ {
		l.Admit(h, Access{})
	}
	mustPanic(t, "beyond max", func() { l.Admit(maxBlocks+1, Access{}) })
	mustPanic(t, "negative max", func() { NewLRU(-1) })
	mustPanic(t, "more than 32 bits", func() { NewLRU(lruMax + 1) })
}

func TestLRUMemory(t *testing.T) {
	const maxBlocks = 1_000_000
	l := NewLRU(maxBlocks).(*LRU)
	defer l.Free()
	bytes := 4 * (len(l.prev) + len(l.next))
	if perBlock := float64(bytes) / maxBlocks; perBlock > 8.01 {
		t.Fatalf("%.3f bytes a block, want 8", perBlock)
	}
	allocs := testing.AllocsPerRun(100, func() {
		l.Admit(1, Access{})
		l.Touch(1, Access{Importance: 2})
		h, _ := l.Victim()
		l.Evicted(h)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations, want 0", allocs)
	}
}

func BenchmarkLRUTouch(b *testing.B) {
	for _, blocks := range []uint32{1 << 10, 1 << 20, 1 << 22} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			l := NewLRU(int(blocks))
			defer Free(l)
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
