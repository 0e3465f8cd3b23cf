package result

import "github.com/spillway-kv/spillway/engine/histogram"

// Sum is what several workers measured of one direction.
type Sum struct {
	Lat      histogram.Snapshot // as lat_ns: from the intended start with open-loop load
	Bytes    int64
	Outcomes [outcomeCount]uint64 // by Outcome
}

// Sum adds up a direction of the workers that fit; of all if fit is nil. A verdict
// is made from it: P99 from Lat, to which each Late one adds a read over the budget.
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
	return Sum{Lat: all.lat.Snapshot(), Bytes: int64(all.bytes), Outcomes: all.outcomes}
}
