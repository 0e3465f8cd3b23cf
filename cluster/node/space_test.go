package node

import (
	"fmt"
	"testing"
)

// TestHome: keys spread by the stores' sizes, and a store that comes takes only keys
// for itself.
func TestHome(t *testing.T) {
	three := &space{parts: []part{{seed: 1, size: 100}, {seed: 2, size: 100}, {seed: 3, size: 200}}}
	four := &space{parts: append(three.parts[:3:3], part{seed: 4, size: 400})}
	const n = 40_000
	counts, moved := make([]int, 4), 0
	for i := range n {
		key := fmt.Appendf(nil, "key-%d", i)
		before, after := three.home(uint32(i%3), key), four.home(uint32(i%3), key)
		counts[after]++
		if after != before {
			moved++
			if after != 3 {
				t.Fatalf("key %d went from store %d to %d", i, before, after)
			}
		}
	}
	for i, want := range []int{n / 8, n / 8, n / 4, n / 2} {
		if counts[i] < want*95/100 || counts[i] > want*105/100 {
			t.Errorf("store %d has %d keys, want about %d", i, counts[i], want)
		}
	}
	if moved != counts[3] {
		t.Errorf("%d keys moved, the new store has %d", moved, counts[3])
	}
}
