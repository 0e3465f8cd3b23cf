// Package spread holds the statistics of paired measurements: medians with their
// middle 80 %, ratios of neighbours in time, and the verdict on a bar.
package spread

import (
	"fmt"
	"slices"
)

// Spread is where the values of one number lie over the rounds.
type Spread struct {
	Median float64 `json:"median"` // half of the values lie below
	Low    float64 `json:"p10"`    // the middle 80 % lie between Low and High
	High   float64 `json:"p90"`
}

// Of returns the spread of values, interpolated between neighbours; all zero
// if there are none.
func Of(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		x := share * float64(len(sorted)-1)
		i := int(x)
		if i == len(sorted)-1 {
			return sorted[i]
		}
		return sorted[i] + (x-float64(i))*(sorted[i+1]-sorted[i])
	}
	return Spread{at(0.5), at(0.1), at(0.9)}
}

// Median is the median of values, 0 if there are none.
func Median(values []float64) float64 { return Of(values).Median }

func (s Spread) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Low, s.High) }

// Ratios divides over by under, pair by pair. Pairs with a number that is not
// above 0 are left out: such a run measured nothing.
func Ratios(over, under []float64) []float64 {
	var all []float64
	for i := range min(len(over), len(under)) {
		if over[i] > 0 && under[i] > 0 {
			all = append(all, over[i]/under[i])
		}
	}
	return all
}

// Bar is the limit of a number. The zero value is no bar.
type Bar struct {
	Limit  float64 `json:"limit"`
	Higher bool    `json:"higher_is_better"`
}

func (b Bar) String() string {
	return map[bool]string{true: "≥ ", false: "≤ "}[b.Higher] + fmt.Sprintf("%.3g", b.Limit)
}

// Verdict is how a number stands to its bar.
type Verdict string

// The verdicts. A number that is Met or WithinNoise counts as met.
const (
	Met         Verdict = "yes"     // the median is at the bar or better
	WithinNoise Verdict = "noise"   // not at the bar, but inside the middle 80 % of the reference against itself
	Missed      Verdict = "no"      // neither
	Unknown     Verdict = "no data" // nothing was measured
)

// Judge holds a ratio against its bar. self is the spread of the reference
// against itself, nil where that is not measured.
func (b Bar) Judge(ratio Spread, self *Spread) Verdict {
	switch {
	case !(ratio.Median > 0): // NaN too
		return Unknown
	case b.better(ratio.Median, b.Limit):
		return Met
	case self != nil && b.Higher && ratio.Median >= self.Low, self != nil && !b.Higher && ratio.Median <= self.High:
		return WithinNoise
	}
	return Missed
}

func (b Bar) better(x, limit float64) bool {
	if b.Higher {
		return x >= limit
	}
	return x <= limit
}
