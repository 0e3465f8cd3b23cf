package result

import (
	"time"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// NowNS is the clock of the run: nanoseconds since its start.
func (r *Run) NowNS() int64 { return time.Since(r.start).Nanoseconds() }

// Document is the result at a time of the run's clock. Workers that still run
// count as ending now.
func (r *Run) Document(nowNS int64) *Document { return r.document(nowNS, false) }

// Full is the document with percentiles and bins of all latencies, whatever the jobs
// want: what a picture needs.
func (r *Run) Full(nowNS int64) *Document { return r.document(nowNS, true) }

func (r *Run) document(nowNS int64, full bool) *Document {
	r.mu.Lock()
	entries, extra := r.entries(), r.extra
	facts, disks := r.observed.now(nowNS)
	r.mu.Unlock()
	extra.Machine = facts
	now := r.start.Add(time.Duration(nowNS))
	d := &Document{FioVersion: r.config.Version, Timestamp: now.Unix(), TimestampMS: now.UnixMilli(),
		Time: now.Format(time.ANSIC), GlobalOptions: r.config.GlobalOptions, Jobs: []Job{}, DiskUtil: disks, Spillway: &extra}
	var sums []*merged
	for _, recorders := range entries {
		m := mergeRecorders(recorders, nowNS)
		if full {
			m.config.Slat, m.config.Clat, m.config.Lat = true, true, true
		}
		sums = append(sums, m)
	}
	shareUsage(sums)
	for _, m := range sums {
		job := m.job()
		job.Elapsed = (nowNS + 999_999_999) / 1e9
		d.Jobs = append(d.Jobs, job)
	}
	shareOfGroup(d.Jobs)
	return d
}

// entries are the recorders of each entry of the document.
func (r *Run) entries() (all [][]*Recorder) {
	groups := map[int]int{}
	for _, w := range r.workers {
		if at, ok := groups[w.config.Group]; ok && w.config.Grouped {
			all[at] = append(all[at], w)
			continue
		}
		if w.config.Grouped {
			groups[w.config.Group] = len(all)
		}
		all = append(all, []*Recorder{w})
	}
	return all
}

func (m *merged) job() Job {
	ios, bytes := m.done()
	j := Job{Name: m.config.Job, GroupID: m.config.Group, Error: m.errno, Options: m.config.Options,
		Read: m.stats(Read), Write: m.stats(Write), Trim: m.stats(Trim), Sync: &Syncs{},
		RuntimeMS: m.runtimeMS, UserCPU: percentOf(m.usage.User, m.runtimeMS), SystemCPU: percentOf(m.usage.System, m.runtimeMS),
		Switches: m.usage.Switches, MajorFaults: m.usage.MajorFaults, MinorFaults: m.usage.MinorFaults,
		DepthLevel: distribution(depthLabels[:], m.depths[:], total(m.depths[:]), 0.1), DepthSubmit: distribution(batchLabels[:], m.submits[:], total(m.submits[:]), 0.1),
		DepthComplete: distribution(batchLabels[:], m.completes[:], total(m.completes[:]), 0.1),
		LatencyDepth:  m.config.Depth, LatencyPercentile: 100, SteadyState: m.steady,
	}
	n := len(unitLabels)
	ofAll := total(m.ranges[:])
	j.LatencyNS = distribution(unitLabels[:], m.ranges[:n], ofAll, 0.01)
	j.LatencyUS = distribution(unitLabels[:], m.ranges[n:2*n], ofAll, 0.01)
	j.LatencyMS = distribution(append(unitLabels[:n:n], secondLabels[:]...), m.ranges[2*n:], ofAll, 0.01)
	if m.config.ContinueOnError {
		errors, first := m.errors(), int64(m.errno)
		j.TotalErrors, j.FirstError = &errors, &first
	}
	j.Spillway = &SpillwayJob{Workers: m.workers, CPUScope: "process, by I/Os", Target: m.config.Target, BlockBytes: m.config.BlockBytes, Error: m.errText, OpenLoop: m.config.OpenLoop,
		Read: m.spillwayStats(Read), Write: m.spillwayStats(Write), Prefix: m.prefixLoads(), Origins: originsOf(m.origins)}
	if ios > 0 && bytes > 0 {
		cpu := m.usage.User + m.usage.System
		j.Spillway.CPUPerIOUS = decimal(cpu.Seconds() * 1e6 / float64(ios))
		j.Spillway.CPUPerGBS = decimal(cpu.Seconds() / float64(bytes) * 1e9)
	}
	return j
}

func (m *merged) stats(d Direction) *Stats {
	t := m.directions[d]
	if t == nil {
		return &Stats{}
	}
	s := &Stats{Bytes: int64(t.bytes), KBytes: int64(t.bytes >> 10), IOs: int64(t.outcomes[Done]), ShortIOs: int64(t.shorts),
		Slat: m.latency(&t.slat, m.config.Slat), Clat: m.latency(&t.clat, m.config.Clat), Lat: m.latency(&t.lat, m.config.Lat)}
	if s.IOs > 0 && m.longestMS[d] > 0 {
		s.RuntimeMS = m.longestMS[d]
		s.BWBytes = s.Bytes * 1000 / s.RuntimeMS
		s.BW = s.BWBytes >> 10
		s.IOPS = Decimal(float64(s.IOs) * 1000 / float64(s.RuntimeMS))
	}
	t.series.samples(s, m.longestMS[d])
	return s
}

func (m *merged) latency(h *histogram.Histogram, percentiles bool) Latency {
	if !percentiles {
		return LatencyOf(h.Snapshot(), nil)
	}
	return LatencyOf(h.Snapshot(), m.config.Percentiles)
}

// LatencyOf is the document's form of a histogram, with the percentiles given,
// which lie within its extremes. Without any it has no bins either, as in fio.
func LatencyOf(s histogram.Snapshot, percents []float64) Latency {
	l := Latency{N: int64(s.Count)}
	if s.Count == 0 {
		return l
	}
	l.Min, l.Max, l.Mean, l.Stddev = &s.MinNS, &s.MaxNS, decimal(s.MeanNS), decimal(s.StddevNS)
	for _, p := range percents {
		l.Percentiles = append(l.Percentiles, Percentile{p, s.PercentileNS(p)})
	}
	if len(percents) > 0 {
		l.Bins = s.Bins()
	}
	return l
}

func (m *merged) spillwayStats(d Direction) *SpillwayStats {
	t := m.directions[d]
	if t == nil {
		return nil
	}
	n := func(o Outcome) int64 { return int64(t.outcomes[o]) }
	s := &SpillwayStats{Done: n(Done), Missed: n(Missed), Late: n(Late), Failed: n(Failed), Unverified: n(Unverified),
		Damaged: n(Damaged), Dropped: n(Dropped), Busy: n(Busy), Present: n(Present), Series: t.series.document()}
	if t.service != nil {
		l := LatencyOf(t.service.Snapshot(), m.config.Percentiles)
		s.ServiceNS = &l
	}
	return s
}

// distribution gives each class its share of all. A class that holds anything
// shows at least leastPercent, as in fio.
func distribution(labels []string, counts []uint64, all uint64, leastPercent Decimal) Distribution {
	d := make(Distribution, len(labels))
	for i, label := range labels {
		d[i].Label = label
		if counts[i] > 0 {
			d[i].Percent = max(Decimal(float64(counts[i])/float64(all)*100), leastPercent)
		}
	}
	return d
}

func total(counts []uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func percentOf(used time.Duration, runtimeMS int64) Decimal {
	if runtimeMS == 0 {
		return 0
	}
	return Decimal(used.Seconds() * 1000 / float64(runtimeMS) * 100)
}

func decimal(v float64) *Decimal {
	d := Decimal(v)
	return &d
}
