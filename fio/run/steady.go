package run

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/result"
)

var criterionNames = [...]string{job.SteadyIOPS: "iops", job.SteadyIOPSSlope: "iops_slope", job.SteadyBandwidth: "bw", job.SteadyBandwidthSlope: "bw_slope"}

// steadyState is the result's form, as fio prints it: what decides is the
// criterion's value, in percent if the limit is.
func steadyState(j *job.Steady, s load.Steadiness) result.SteadyState {
	unit, attained := "", int64(0)
	if j.Percent {
		unit = "%"
	}
	if s.Attained {
		attained = 1
	}
	return result.SteadyState{State: fmt.Sprintf("%s:%f%s", criterionNames[j.Criterion], j.Limit, unit), Duration: int64(j.Duration.Seconds()),
		Attained: attained, Criterion: fmt.Sprintf("%f%s", s.Value, unit), MaxDev: result.Decimal(s.Deviation), Slope: result.Decimal(s.Slope)}
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
	judge := load.NewSteady(*c)
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
		s := judge.Add(rate)
		k.workers[0].recorder.Settle(steadyState(c, s))
		if s.Attained {
			k.end()
		}
	}
}
