package place

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func nodes(n int, weight func(i int) float64) []Node {
	all := make([]Node, n)
	for i := range all {
		binary.LittleEndian.PutUint64(all[i].ID[:], uint64(i+1)) // poor on purpose
		all[i].Weight = weight(i)
	}
	return all
}

func one(int) float64 { return 1 }

func randomID(rng *rand.Rand) (id ID) {
	binary.LittleEndian.PutUint64(id[:8], rng.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rng.Uint64())
	return id
}

const seed = 41

func newRand() *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// TestShares: nodes get runs in proportion to their weights, within 4 standard deviations.
func TestShares(t *testing.T) {
	for name, weight := range map[string]func(int) float64{
		"equal":  one,
		"rising": func(i int) float64 { return float64(i + 1) },
		"steps":  func(i int) float64 { return Weight(1<<40, int64(i%5)<<38) },
		"one":    func(i int) float64 { return map[bool]float64{true: 1}[i == 3] },
	} {
		t.Run(name, func(t *testing.T) {
			const draws = 40000
			all := nodes(9, weight)
			s, rng, counts, total := NewSet(all), newRand(), make([]int, len(all)), 0.0
			for range draws {
				counts[s.Home(randomID(rng))]++
			}
			for i := range all {
				total += all[i].Weight
			}
			for i := range all {
				p := all[i].Weight / total
				if off := math.Abs(float64(counts[i]) - p*draws); off > 4*math.Sqrt(draws*p*(1-p)) {
					t.Errorf("node %d of weight %g has %d of %d runs, seed %d", i, all[i].Weight, counts[i], draws, seed)
				}
			}
		})
	}
}

// TestMovement: a node that leaves moves only what it had, one that comes only what it
// gets, and one that gets heavier takes and gives nothing but to itself.
func TestMovement(t *testing.T) {
	for _, weight := range []func(int) float64{one, func(i int) float64 { return float64(i%3 + 1) }} {
		all := nodes(8, weight)
		const changed = 5
		without := slices.Delete(slices.Clone(all), changed, changed+1)
		heavier := slices.Clone(all)
		heavier[changed].Weight *= 2
		before, fewer, more := NewSet(all), NewSet(without), NewSet(heavier)
		rng := newRand()
		for range 5000 {
			id := randomID(rng)
			had, has, got := all[before.Home(id)].ID, without[fewer.Home(id)].ID, heavier[more.Home(id)].ID
			if had != all[changed].ID && has != had {
				t.Fatalf("node %x had it and is there, and %x has it now, seed %d", had, has, seed)
			}
			if got != had && got != all[changed].ID {
				t.Fatalf("node %x got it from %x, and only %x got heavier, seed %d", got, had, all[changed].ID, seed)
			}
		}
	}
}

// TestOrder: the first is the home; who stands in is the home without those before; the
// order of the nodes does not matter.
func TestOrder(t *testing.T) {
	all := nodes(7, func(i int) float64 { return float64(i) }) // node 0 takes nothing
	s, rng := NewSet(all), newRand()
	shuffled := slices.Clone(all)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	other := NewSet(shuffled)
	for range 500 {
		id := randomID(rng)
		order := s.Order(id, 1)
		if len(order) != 6 || order[0] != s.Home(id) || slices.Contains(order, 0) {
			t.Fatalf("order %v, home %d", order, s.Home(id))
		}
		second := slices.Clone(all)
		second[order[0]].Weight = 0
		if got := NewSet(second).Home(id); got != order[1] {
			t.Fatalf("without its home: %d, the order was %v", got, order)
		}
		for at, i := range other.Order(id, 1) {
			if shuffled[i].ID != all[order[at]].ID {
				t.Fatalf("another order of nodes gives another order of homes")
			}
		}
	}
}

// TestCopies: on different nodes always, in different zones as far as there are so many,
// and the first home is the same whatever the copies.
func TestCopies(t *testing.T) {
	for zones := 1; zones <= 4; zones++ {
		all := nodes(8, one)
		for i := range all {
			all[i].Zone = fmt.Sprint("zone", i%zones)
		}
		s, rng := NewSet(all), newRand()
		for copies := 1; copies <= CopiesMax; copies++ {
			counts := make([]int, len(all))
			for range 2000 {
				id := randomID(rng)
				order := s.Order(id, copies)
				distinct := map[string]bool{}
				for _, i := range order[:copies] {
					distinct[all[i].Zone] = true
					counts[i]++
				}
				if len(distinct) != min(copies, zones) {
					t.Fatalf("%d copies in %d of %d zones", copies, len(distinct), zones)
				}
				sorted := slices.Sorted(slices.Values(order))
				if len(sorted) != 8 || len(slices.Compact(sorted)) != 8 || order[0] != s.Home(id) {
					t.Fatalf("order %v", order)
				}
			}
			if most, least := slices.Max(counts), slices.Min(counts); most > 2*least {
				t.Errorf("%d copies in %d zones: %v", copies, zones, counts)
			}
		}
	}
}

// TestNone: without nodes, or with such as take nothing, there is no home.
func TestNone(t *testing.T) {
	for _, s := range []*Set{NewSet(nil), NewSet(nodes(3, func(int) float64 { return 0 }))} {
		if s.Home(ID{}) != -1 || len(s.Order(ID{}, 3)) != 0 {
			t.Error("a home where there is none")
		}
	}
}

// TestWeight: five steps from full to empty, in proportion to capacity, and small changes
// of free space change nothing.
func TestWeight(t *testing.T) {
	for _, test := range []struct {
		capacity, free int64
		want           float64
	}{
		{0, 0, 0}, {-1, 5, 0}, {100, 0, 100}, {100, -7, 100}, {100, 1, 200}, {100, 25, 200}, {100, 26, 300},
		{100, 75, 400}, {100, 76, 500}, {100, 100, 500}, {100, 400, 500}, {200, 100, 600},
	} {
		if got := Weight(test.capacity, test.free); got != test.want {
			t.Errorf("Weight(%d, %d) is %g, want %g", test.capacity, test.free, got, test.want)
		}
	}
}

// TestRuns: everything once, in order, 64 at most.
func TestRuns(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 128, 200} {
		fresh := make([]int, n)
		for i := range fresh {
			fresh[i] = 3 * i
		}
		runs := Runs(fresh)
		if len(runs) != (n+63)/64 || !slices.Equal(slices.Concat(runs...), fresh) {
			t.Errorf("%d blocks: %v", n, runs)
		}
		for _, r := range runs {
			if len(r) == 0 || len(r) > RunBlocksMax {
				t.Errorf("a run of %d", len(r))
			}
		}
	}
}

func BenchmarkHome(b *testing.B) {
	for name, weight := range map[string]func(int) float64{"equal": one, "weighted": func(i int) float64 { return float64(i + 1) }} {
		b.Run(name, func(b *testing.B) {
			s, id := NewSet(nodes(32, weight)), ID{}
			for i := range b.N {
				binary.LittleEndian.PutUint64(id[:], uint64(i))
				s.Home(id)
			}
		})
	}
}
