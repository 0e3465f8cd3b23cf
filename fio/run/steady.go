package run

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
)

// Steady is how steady a job's rate was over the last Duration of its criterion.
type Steady struct {
	Full     bool    // a whole Duration was seen
	Attained bool    // the criterion is met
	Mean     float64 // IOPS or bytes/s
	// SlopePercent is the slope of the least-squares line a second, and
	// DeviationPercent the largest distance from the mean, in percent of the mean.
	SlopePercent, DeviationPercent float64
	Slope, Deviation               float64 // the same in the criterion's unit
}

// window keeps the rates of the last intervals.
type window struct {
	j     *job.Steady
	rates []float64
	next  int
	full  bool
}

func newWindow(j *job.Steady) *window {
	return &window{j: j, rates: make([]float64, max(2, int(j.Duration/j.Interval)))}
}

// add takes the rate of one more interval and judges.
func (w *window) add(rate float64) Steady {
	w.rates[w.next] = rate
	w.next = (w.next + 1) % len(w.rates)
	w.full = w.full || w.next == 0
	if !w.full {
		return Steady{}
	}
	s := Steady{Full: true}
	n := float64(len(w.rates))
	var sum, sumT, sumTT, sumTR float64
	for i := range w.rates {
		r := w.rates[(w.next+i)%len(w.rates)]
		t := float64(i) * w.j.Interval.Seconds()
		sum, sumT, sumTT, sumTR = sum+r, sumT+t, sumTT+t*t, sumTR+t*r
	}
	s.Mean = sum / n
	s.Slope = (n*sumTR - sumT*sum) / (n*sumTT - sumT*sumT)
	for _, r := range w.rates {
		s.Deviation = max(s.Deviation, math.Abs(r-s.Mean))
	}
	if s.Mean > 0 {
		s.SlopePercent, s.DeviationPercent = 100*s.Slope/s.Mean, 100*s.Deviation/s.Mean
	}
	s.Attained = s.Mean > 0 && w.meets(s)
	return s
}

func (w *window) meets(s Steady) bool {
	value := s.Deviation
	if w.j.Percent {
		value = s.DeviationPercent
	}
	if w.j.Criterion == job.SteadyIOPSSlope || w.j.Criterion == job.SteadyBandwidthSlope {
		value = math.Abs(s.Slope)
		if w.j.Percent {
			value = math.Abs(s.SlopePercent)
		}
	}
	return value < w.j.Limit
}

var criterionNames = [...]string{job.SteadyIOPS: "iops", job.SteadyIOPSSlope: "iops_slope", job.SteadyBandwidth: "bw", job.SteadyBandwidthSlope: "bw_slope"}

// steadyState is the result's form, as fio prints it: what decides is the
// criterion's value, in percent if the limit is.
func steadyState(j *job.Steady, s Steady) result.SteadyState {
	unit, value := "", s.Deviation
	slope := j.Criterion == job.SteadyIOPSSlope || j.Criterion == job.SteadyBandwidthSlope
	if slope {
		value = s.Slope
	}
	if j.Percent {
		unit, value = "%", s.DeviationPercent
		if slope {
			value = s.SlopePercent
		}
	}
	attained := int64(0)
	if s.Attained {
		attained = 1
	}
	return result.SteadyState{State: fmt.Sprintf("%s:%f%s", criterionNames[j.Criterion], j.Limit, unit), Duration: int64(j.Duration.Seconds()),
		Attained: attained, Criterion: fmt.Sprintf("%f%s", value, unit), MaxDev: result.Decimal(s.Deviation), Slope: result.Decimal(s.Slope)}
}

// watchSteady ends the job once it is steady. The returned function ends the watch.
func (k *crew) watchSteady() (stop func()) {
	if k.job.SteadyState.Duration == 0 {
		return func() {}
	}
	return every(k.job.SteadyState.Interval, k.steadyStep())
}

// steadyStep is called each interval.
func (k *crew) steadyStep() func() {
	c := &k.job.SteadyState
	w := newWindow(c)
	began, last, at := time.Now(), int64(0), time.Now()
	return func() {
		now := time.Now()
		var ops, bytes int64
		for _, worker := range k.workers {
			ops += worker.doneOps.Load()
			bytes += worker.doneBytes.Load()
		}
		count := float64(ops)
		if c.Criterion == job.SteadyBandwidth || c.Criterion == job.SteadyBandwidthSlope {
			count = float64(bytes)
		}
		rate := (count - float64(last)) / now.Sub(at).Seconds()
		last, at = int64(count), now
		if now.Sub(began) <= c.RampTime+k.job.RampTime {
			return
		}
		s := w.add(rate)
		k.workers[0].recorder.Settle(steadyState(c, s))
		if s.Attained {
			k.end()
		}
	}
}
