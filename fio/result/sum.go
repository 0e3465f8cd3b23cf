package result

import (
	"slices"

	"github.com/spillway-kv/spillway/engine/histogram"
	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/sweep"
)

// Sum is what several workers measured of one direction.
type Sum struct {
	Lat      histogram.Snapshot // as lat_ns: from the intended start with open-loop load
	Bytes    int64
	Outcomes [outcomeCount]uint64 // by Outcome

	lat *histogram.Histogram
}

// Sum adds up a direction of the workers that fit; of all if fit is nil.
func (r *Run) Sum(d Direction, fit func(WorkerConfig) bool) Sum {
	r.mu.Lock()
	workers := r.workers
	r.mu.Unlock()
	var all tally
	for _, w := range workers {
		if fit != nil && !fit(w.config) {
			continue
		}
		w.mu.Lock()
		if t := w.directions[d]; t != nil {
			all.merge(t)
		}
		w.mu.Unlock()
	}
	return Sum{Lat: all.lat.Snapshot(), Bytes: int64(all.bytes), Outcomes: all.outcomes, lat: &all.lat}
}

// Reads says whether any worker that fits reads.
func (r *Run) Reads(fit func(WorkerConfig) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.workers, func(w *Recorder) bool {
		return (len(w.config.Directions) == 0 || slices.Contains(w.config.Directions, Read)) && fit(w.config)
	})
}

// JudgeLoads compares the loads of whole prefixes with computing them, of the workers
// that fit; of all if fit is nil.
func (r *Run) JudgeLoads(fit func(WorkerConfig) bool) fio.LoadVerdict {
	r.mu.Lock()
	workers := r.workers
	r.mu.Unlock()
	var all prefixTally
	for _, w := range workers {
		w.mu.Lock()
		if w.prefix != nil && (fit == nil || fit(w.config)) {
			all.merge(w.prefix)
		}
		w.mu.Unlock()
	}
	return fio.JudgeLoads(all.ratio.Snapshot(), all.faster)
}

// Judge compares P99 with a budget. A read that was late has no latency of its
// own: each counts as one in the next bucket over the budget, as it can have been no
// less.
func (s Sum) Judge(budgetNS int64) fio.Verdict {
	if s.Outcomes[Late] == 0 {
		return fio.Judge(s.Lat, budgetNS)
	}
	const bucketsPerTwo = 64 // so no bucket is wider than a 64th of what it holds
	var all histogram.Histogram
	all.Merge(s.lat)
	for range s.Outcomes[Late] {
		all.Record(budgetNS + budgetNS/bucketsPerTwo + 1)
	}
	return fio.Judge(all.Snapshot(), budgetNS)
}

// Point is what this run adds to a sweep, as its run at so much depth: rates of
// all directions, latencies of the reads, or of the writes where nothing was read.
// budgetNS 0 is none.
func (r *Run) Point(depth int, budgetNS int64) sweep.Point {
	return r.PointOf(depth, budgetNS, func(WorkerConfig) bool { return true })
}

// PointOf is Point of the workers that fit, which are those of whole groups.
func (r *Run) PointOf(depth int, budgetNS int64, fit func(WorkerConfig) bool) sweep.Point {
	p := sweep.Point{Depth: depth}
	groups := map[int]bool{}
	r.mu.Lock()
	for _, w := range r.workers {
		groups[w.config.Group] = groups[w.config.Group] || fit(w.config)
	}
	r.mu.Unlock()
	for _, j := range r.Document(r.NowNS()).Jobs {
		if !groups[j.GroupID] {
			continue
		}
		for _, s := range []*Stats{j.Read, j.Write} {
			p.IOPS += float64(s.IOPS)
			p.BWBytes += float64(s.BWBytes)
		}
	}
	s := r.Sum(Read, fit)
	if s.Lat.Count == 0 && s.Outcomes[Late] == 0 {
		s = r.Sum(Write, fit)
	}
	v := s.Judge(budgetNS)
	p.MeanNS, p.P50NS, p.P99NS, p.Samples = s.Lat.MeanNS, s.Lat.PercentileNS(50), v.P99NS, v.Samples
	p.LowNS, p.HighNS = v.LowNS, v.HighNS
	if budgetNS > 0 {
		p.Verdict = v.Judgement.String()
	}
	return p
}
