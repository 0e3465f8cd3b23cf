package spread

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	tests := []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{3, 1, 2}, Spread{2, 1.2, 2.8}},
		{[]float64{10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Spread{5, 1, 9}},
	}
	for _, test := range tests {
		before := slices.Clone(test.values)
		if got := Of(test.values); !near(got, test.want) {
			t.Errorf("Of(%v) = %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("Of changed its argument: %v, was %v", test.values, before)
		}
	}
}

func near(a, b Spread) bool {
	const eps = 1e-12
	return math.Abs(a.Median-b.Median) < eps && math.Abs(a.Low-b.Low) < eps && math.Abs(a.High-b.High) < eps
}

// TestOfOrder: the order of the rounds does not count, and the three numbers are
// in order and within the values.
func TestOfOrder(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		values := make([]float64, 1+rng.IntN(30))
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		s := Of(values)
		if s.Low > s.Median || s.Median > s.High || s.Low < slices.Min(values) || s.High > slices.Max(values) {
			t.Fatalf("seed %d: %v of %v", seed, s, values)
		}
		rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		if again := Of(values); again != s {
			t.Fatalf("seed %d: %v, shuffled %v", seed, s, again)
		}
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{1, 4, 0, 9, 5}, []float64{2, 2, 3, 0})
	if want := []float64{0.5, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: pair by pair, without those that measured nothing", got, want)
	}
}

func TestJudge(t *testing.T) {
	self := &Spread{Median: 1, Low: 0.8, High: 1.3}
	tests := []struct {
		name  string
		bar   Bar
		ratio float64
		self  *Spread
		want  Verdict
	}{
		{"IOPS at the bar", Bar{0.95, true}, 0.95, self, Met},
		{"IOPS better", Bar{0.95, true}, 2, nil, Met},
		{"IOPS within noise", Bar{0.95, true}, 0.8, self, WithinNoise},
		{"IOPS below noise", Bar{0.95, true}, 0.79, self, Missed},
		{"IOPS without noise", Bar{0.95, true}, 0.94, nil, Missed},
		{"P99 at the bar", Bar{1, false}, 1, self, Met},
		{"P99 within noise", Bar{1, false}, 1.3, self, WithinNoise},
		{"P99 above noise", Bar{1, false}, 1.31, self, Missed},
		{"P99 without noise", Bar{1, false}, 1.01, nil, Missed},
		{"nothing measured", Bar{1, false}, 0, self, Unknown},
		{"nonsense", Bar{1, false}, -3, nil, Unknown},
		{"not a number", Bar{1, true}, math.NaN(), self, Unknown},
	}
	for _, test := range tests {
		if got := test.bar.Judge(Spread{Median: test.ratio}, test.self); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestBarString(t *testing.T) {
	if got := (Bar{0.95, true}).String() + ", " + (Bar{2.5, false}).String(); got != "≥ 0.95, ≤ 2.5" {
		t.Error(got)
	}
}
