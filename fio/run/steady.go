package run

import (
	"fmt"
	"math"
	"slices"
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
	window := steadyWindow{most: judge.Window()}
	began, lastOps, lastBytes, at := time.Now(), int64(0), int64(0), time.Now()
	return func() {
		now := time.Now()
		var ops, bytes int64
		for _, worker := range k.workers {
			ops += worker.doneOps.Load()
			bytes += worker.doneBytes.Load()
		}
		seconds := now.Sub(at).Seconds()
		iops, bw := float64(ops-lastOps)/seconds, float64(bytes-lastBytes)/seconds
		lastOps, lastBytes, at = ops, bytes, now
		if now.Sub(began) <= c.RampTime+k.job.RampTime {
			return
		}
		rate := iops
		if c.Criterion == job.SteadyBandwidth || c.Criterion == job.SteadyBandwidthSlope {
			rate = bw
		}
		window.add(iops, bw)
		s := judge.Add(rate)
		state := steadyState(c, s)
		state.Data = window.data()
		k.workers[0].recorder.Settle(state)
		if s.Attained {
			k.end()
		}
	}
}

// steadyWindow keeps the rates of the last checks.
type steadyWindow struct {
	most     int
	iops, bw []int64
}

func (w *steadyWindow) add(iops, bw float64) {
	if len(w.iops) == w.most {
		w.iops, w.bw = w.iops[1:], w.bw[1:]
	}
	w.iops, w.bw = append(w.iops, int64(math.Round(iops))), append(w.bw, int64(math.Round(bw)))
}

// data is the result's form, a copy.
func (w *steadyWindow) data() *result.SteadyData {
	mean := func(all []int64) (sum int64) {
		for _, n := range all {
			sum += n
		}
		return sum / int64(len(all))
	}
	return &result.SteadyData{BWMean: mean(w.bw), IOPSMean: mean(w.iops), IOPS: slices.Clone(w.iops), BW: slices.Clone(w.bw)}
}
