package chart

import (
	"fmt"
	"math"
)

// Scale maps values onto pixels.
type Scale struct {
	Low, High float64 // values at its ends
	from, to  float64 // pixels there
	base      float64 // of the logarithm; 0: linear
	step      float64 // between ticks, if linear
}

// Log spans all positive values, from one power of base to another.
func Log(values []float64, base, from, to float64) Scale {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 1, 1
	}
	round := func(v float64, to func(float64) float64) float64 {
		return math.Pow(base, to(math.Log(v)/math.Log(base)))
	}
	s := Scale{Low: round(low, math.Floor), High: round(high, math.Ceil), from: from, to: to, base: base}
	if s.Low == s.High {
		s.High *= base
	}
	return s
}

// Linear spans 0 to a round number at or above all values, in about so many steps.
func Linear(values []float64, steps int, from, to float64) Scale {
	high := 0.0
	for _, v := range values {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			high = max(high, v)
		}
	}
	if high == 0 {
		high = 1
	}
	rough := high / float64(steps)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * power
	for _, factor := range []float64{1, 2, 2.5, 5} {
		if factor*power >= rough*0.9999 {
			step = factor * power
			break
		}
	}
	return Scale{High: math.Ceil(high/step-1e-9) * step, from: from, to: to, step: step}
}

// At is the pixel of a value; values outside lie at the ends.
func (s Scale) At(v float64) float64 {
	share := (v - s.Low) / (s.High - s.Low)
	if s.base > 0 {
		share = math.Log(v/s.Low) / math.Log(s.High/s.Low)
	}
	return s.from + (s.to-s.from)*min(max(share, 0), 1)
}

// Ticks are the round values: powers of the base, or steps.
func (s Scale) Ticks() []float64 {
	var all []float64
	if s.base == 0 {
		for i := 0; float64(i)*s.step <= s.High*1.0001; i++ {
			all = append(all, float64(i)*s.step)
		}
		return all
	}
	for v := s.Low; v <= s.High*1.0001; v *= s.base {
		all = append(all, v)
	}
	return all
}

// Number is v, short, with k, M or G.
func Number(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size*0.9999 {
			return fmt.Sprintf("%.3g%s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.3g", v)
}
