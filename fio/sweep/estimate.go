package sweep

import "math"

// Estimate is how many drives like the one measured would serve the load within
// a budget, by Little's law. It is an estimate: it takes for granted that the load
// spreads evenly, that nothing else than the drive limits it, and that at a lower
// depth the P99 shrinks as the mean does.
type Estimate struct {
	// DepthEach is how much may be in flight at each drive.
	DepthEach float64 `json:"iodepth_each"`
	// Drives is how many share Depth then.
	Drives int `json:"drives"`
	Depth  int `json:"iodepth"`
	// Swept: DepthEach was measured by a sweep, and is not derived.
	Swept bool `json:"swept"`
	// Hopeless: even one I/O at a time is over the budget, so no number helps;
	// Drives is 0.
	Hopeless bool `json:"hopeless,omitempty"`
}

// Drives estimates from one measured point: Little's law says that the depth in
// flight is the rate times the mean latency. A P99 within the budget needs a mean
// of at most budget × mean / P99, so a drive that keeps its rate can hold
//
//	IOPS × budget × mean / P99
//
// and the point's depth divided by that, rounded up, is the number of drives. The
// point is one of a closed loop: with open-loop load latency says how far the drive
// fell behind, which grows with the time measured, and no such number follows.
func Drives(p Point, budgetNS int64) Estimate {
	e := Estimate{Depth: p.Depth}
	if p.P99NS <= 0 || p.IOPS <= 0 {
		return e
	}
	e.DepthEach = p.IOPS * float64(budgetNS) / 1e9 * p.MeanNS / float64(p.P99NS)
	return e.share()
}

// Drives estimates for a load of so many in flight: the depth that passed is
// measured, and each drive gets as much.
func (s *Sweep) Drives(depth int) Estimate {
	e := Estimate{Depth: depth, DepthEach: float64(s.DepthUnderBudget), Swept: true}
	return e.share()
}

// share rounds up; a depth below 1 cannot be had.
func (e Estimate) share() Estimate {
	if e.DepthEach < 1 {
		e.Hopeless = true
		return e
	}
	e.Drives = int(math.Ceil(float64(e.Depth)/e.DepthEach - 1e-9))
	return e
}
