package chart

import (
	"math"
	"slices"
	"testing"
)

func TestScale(t *testing.T) {
	s := Log([]float64{0.3, 3, 0, math.Inf(1)}, 2, 100, 500)
	if s.Low != 0.25 || s.High != 4 {
		t.Fatalf("%v..%v, want 0.25..4", s.Low, s.High)
	}
	for v, want := range map[float64]float64{0.25: 100, 1: 300, 4: 500, 0.01: 100, 99: 500} {
		if got := s.At(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v lies at %v, want %v", v, got, want)
		}
	}
	if got := s.Ticks(); len(got) != 5 {
		t.Errorf("ticks %v", got)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0.25: "0.25", 1: "1", 1000: "1k", 1.5e6: "1.5M", 2e9: "2G"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestLinear(t *testing.T) {
	for _, c := range []struct {
		high float64
		want []float64
	}{{100, []float64{0, 25, 50, 75, 100}}, {0, []float64{0, 0.25, 0.5, 0.75, 1}}, {3.1, []float64{0, 1, 2, 3, 4}}, {79, []float64{0, 20, 40, 60, 80}},
		{1e-3, []float64{0, 0.00025, 0.0005, 0.00075, 0.001}}} {
		s := Linear([]float64{c.high, math.Inf(1), math.NaN()}, 4, 0, 10)
		got := s.Ticks()
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("ticks up to %v: %v, want %v", c.high, got, c.want)
		}
		if s.At(s.High) != 10 || s.At(0) != 0 || s.At(s.High/2) != 5 || s.At(-1) != 0 {
			t.Errorf("%+v", s)
		}
	}
}
