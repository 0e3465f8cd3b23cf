package result

import (
	"math"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// merged is the sum of the recorders of one entry.
type merged struct {
	config     WorkerConfig // of the first
	directions [directionCount]*tally
	depths     [len(depthLabels)]uint64
	submits    [len(batchLabels)]uint64
	completes  [len(batchLabels)]uint64
	ranges     [rangeCount]uint64
	workers    int
	runtimeMS  int64                 // summed
	longestMS  [directionCount]int64 // of the worker that used the direction longest
	firstNS    int64                 // the first begin; none if larger than lastNS
	lastNS     int64                 // the last end
	usage      Usage                 // of the process in between; shareUsage leaves the part of the entry
	errno      int
	errText    string
	steady     *SteadyState
	prefix     *prefixTally // nil: no requests of an engine
	origins    []OriginSpan // of each daemon
}

// mergeRecorders adds up recorders, one at least, at a time of the run.
func mergeRecorders(recorders []*Recorder, nowNS int64) *merged {
	m := &merged{config: recorders[0].config, workers: len(recorders)}
	m.firstNS, m.lastNS = math.MaxInt64, -1
	var before, after Usage
	for _, r := range recorders {
		r.mu.Lock()
		m.add(r)
		if r.begun {
			endNS, usage := r.endNS, r.after
			if endNS < 0 {
				endNS, usage = nowNS, ProcessUsage()
			}
			// A worker that ran for less than a millisecond ran for one, as in fio.
			ms := max((endNS-r.beginNS)/1e6, 1)
			m.runtimeMS += ms
			for d := range Direction(directionCount) {
				fromNS, toNS := r.span(d, endNS)
				m.longestMS[d] = max(m.longestMS[d], (toNS-fromNS)/1e6, 1)
			}
			if r.beginNS < m.firstNS {
				m.firstNS, before = r.beginNS, r.before
			}
			if endNS > m.lastNS {
				m.lastNS, after = endNS, usage
			}
		}
		r.mu.Unlock()
	}
	m.usage = after.Since(before)
	return m
}

// shareUsage leaves each entry its part of what the process used: by I/Os, with all
// entries that ran at the same time. Goroutines move between threads, so nobody can
// tell it apart exactly.
func shareUsage(entries []*merged) {
	parts := make([]float64, len(entries))
	for i, m := range entries {
		own, _ := m.done()
		all := uint64(0)
		for _, other := range entries {
			if other == m || other.firstNS < m.lastNS && m.firstNS < other.lastNS {
				ios, _ := other.done()
				all += ios
			}
		}
		parts[i] = 1
		if all > 0 {
			parts[i] = float64(own) / float64(all)
		}
	}
	for i, m := range entries {
		m.usage = m.usage.part(parts[i])
	}
}

// add sums the counters of r, whose lock is held.
func (m *merged) add(r *Recorder) {
	for d, t := range r.directions {
		if t == nil {
			continue
		}
		if m.directions[d] == nil {
			m.directions[d] = &tally{}
		}
		m.directions[d].merge(t)
	}
	addCounts(m.depths[:], r.depths[:])
	addCounts(m.submits[:], r.submits[:])
	addCounts(m.completes[:], r.completes[:])
	addCounts(m.ranges[:], r.ranges[:])
	if r.prefix != nil {
		if m.prefix == nil {
			m.prefix = &prefixTally{}
		}
		m.prefix.merge(r.prefix)
	}
	m.addOrigin(r.origin)
	if m.steady == nil {
		m.steady = r.steady
	}
	if m.errno == 0 {
		m.errno, m.errText = r.errno, r.errText
	}
}

func addCounts(to, from []uint64) {
	for i, n := range from {
		to[i] += n
	}
}

func (t *tally) merge(other *tally) {
	t.slat.Merge(&other.slat)
	t.clat.Merge(&other.clat)
	t.lat.Merge(&other.lat)
	if other.service != nil {
		if t.service == nil {
			t.service = &histogram.Histogram{}
		}
		t.service.Merge(other.service)
	}
	t.bytes += other.bytes
	t.shorts += other.shorts
	addCounts(t.outcomes[:], other.outcomes[:])
	t.series.merge(&other.series)
}

// done sums the I/Os and bytes of all directions.
func (m *merged) done() (ios, bytes uint64) {
	for _, t := range m.directions {
		if t != nil {
			ios += t.outcomes[Done]
			bytes += t.bytes
		}
	}
	return ios, bytes
}

// errors counts I/Os that ended in an error or with wrong bytes.
func (m *merged) errors() (total int64) {
	for _, t := range m.directions {
		if t != nil {
			total += int64(t.outcomes[Failed] + t.outcomes[Damaged])
		}
	}
	return total
}
