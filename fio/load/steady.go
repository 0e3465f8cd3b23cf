package load

import (
	"math"

	"github.com/spillway-kv/spillway/fio/job"
)

// Steady judges whether a rate has become steady, with fio's meaning of
// steadystate: of the rates of the last Duration, one an interval, either the
// largest distance from their mean or the slope of the least-squares line through
// them lies below a limit. fio's slope is by interval, not by second.
type Steady struct {
	config job.Steady
	rates  []float64 // the newest at next-1, cyclically
	next   int
	full   bool
}

// Steadiness is how steady the last rates were.
type Steadiness struct {
	// Full: a whole Duration was seen. Without it the rest is zero.
	Full bool
	// Attained: the criterion is met.
	Attained bool
	// Mean, Slope and Deviation are in the rate's unit, Slope by interval. Deviation
	// is the largest distance from the mean.
	Mean, Slope, Deviation float64
	// Value is what is compared with the limit, apart from its sign: slope or
	// deviation, in percent of the mean if the limit is.
	Value float64
}

// NewSteady starts with no rates.
func NewSteady(c job.Steady) *Steady {
	return &Steady{config: c, rates: make([]float64, max(2, c.Duration/c.Interval))}
}

// Window is how many rates it looks at.
func (s *Steady) Window() int { return len(s.rates) }

// OfSlope tells whether a criterion looks at the slope.
func OfSlope(c job.Criterion) bool {
	return c == job.SteadyIOPSSlope || c == job.SteadyBandwidthSlope
}

// Add takes the rate of one more interval: operations or bytes a second.
func (s *Steady) Add(rate float64) Steadiness {
	s.rates[s.next] = rate
	s.next = (s.next + 1) % len(s.rates)
	s.full = s.full || s.next == 0
	if !s.full {
		return Steadiness{}
	}
	now := Steadiness{Full: true}
	now.Mean, now.Slope = line(len(s.rates), s.rate)
	for _, r := range s.rates {
		now.Deviation = max(now.Deviation, math.Abs(r-now.Mean))
	}
	now.Value = now.Deviation
	if OfSlope(s.config.Criterion) {
		now.Value = now.Slope
	}
	if s.config.Percent {
		now.Value *= 100 / now.Mean
	}
	now.Attained = now.Mean > 0 && math.Abs(now.Value) < s.config.Limit
	return now
}

// rate is the i-th oldest.
func (s *Steady) rate(i int) float64 { return s.rates[(s.next+i)%len(s.rates)] }

// line is the least-squares line through y(0), ..., y(n-1): their mean, and the
// slope from one to the next.
func line(n int, y func(int) float64) (mean, slope float64) {
	for i := range n {
		mean += y(i) / float64(n)
	}
	middle := float64(n-1) / 2
	var products, squares float64
	for i := range n {
		x := float64(i) - middle
		products += x * (y(i) - mean)
		squares += x * x
	}
	return mean, products / squares
}
