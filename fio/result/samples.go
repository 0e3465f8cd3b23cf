package result

import "math"

// samples fills the statistics of bandwidth and IOPS over whole intervals.
func (s *series) samples(to *Stats, runtimeMS int64) {
	whole := int(runtimeMS * 1e6 / (SeriesIntervalNS << s.fold))
	if to.IOs == 0 || whole == 0 {
		return
	}
	seconds := float64(int64(SeriesIntervalNS)<<s.fold) / 1e9
	var bw, iops moments
	for _, p := range s.points[:min(whole, seriesPointsMax)] { // one without any I/O is a sample of 0
		bw.add(float64(p.bytes) / 1024 / seconds)
		iops.add(float64(p.ios) / seconds)
	}
	to.BWMin, to.BWMax, to.BWMean, to.BWDev, to.BWSamples = bw.fields()
	to.IOPSMin, to.IOPSMax, to.IOPSMean, to.IOPSStddev, to.IOPSSamples = iops.fields()
}

// document is the series for the document, nil for an empty one.
func (s *series) document() *Series {
	if s.used == 0 {
		return nil
	}
	d := &Series{IntervalMS: int64(SeriesIntervalNS) << s.fold / 1e6}
	for _, p := range s.points[:s.used] {
		d.IOs = append(d.IOs, int64(p.ios))
		d.Bytes = append(d.Bytes, int64(p.bytes))
		d.LatMeanNS = append(d.LatMeanNS, p.latencySumNS/max(int64(p.ios), 1))
		d.LatMaxNS = append(d.LatMaxNS, p.latencyMaxNS)
	}
	return d
}

// moments are minimum, maximum, mean and deviation of samples.
type moments struct {
	n         int64
	low, high float64
	mean, m2  float64 // m2 is the sum of squared distances from the mean (Welford)
}

func (m *moments) add(v float64) {
	if m.n == 0 || v < m.low {
		m.low = v
	}
	m.high = max(m.high, v)
	m.n++
	delta := v - m.mean
	m.mean += delta / float64(m.n)
	m.m2 += delta * (v - m.mean)
}

func (m *moments) fields() (low, high *int64, mean, dev *Decimal, n int64) {
	lowest, highest := int64(m.low), int64(m.high)
	return &lowest, &highest, decimal(m.mean), decimal(math.Sqrt(m.m2 / float64(max(m.n-1, 1)))), m.n
}

// shareOfGroup fills bw_agg: the mean bandwidth of a job's intervals as a share of
// what its group moved in the time of its longest worker, at most 100 %.
func shareOfGroup(jobs []Job) {
	for _, d := range []Direction{Read, Write, Trim} {
		groups := map[int]*groupTotal{}
		for i := range jobs {
			groupOf(groups, &jobs[i]).add(jobs[i].stats(d))
		}
		for i := range jobs {
			s := jobs[i].stats(d)
			if s == nil || s.BWMean == nil {
				continue
			}
			if all := groups[jobs[i].GroupID].bytesPerSecond(); all > 0 {
				s.BWAgg = decimal(min(float64(*s.BWMean)*100/(float64(all)/1024), 100))
			}
		}
	}
}

func groupOf(groups map[int]*groupTotal, j *Job) *groupTotal {
	g := groups[j.GroupID]
	if g == nil {
		g = &groupTotal{}
		groups[j.GroupID] = g
	}
	return g
}

// groupTotal sums one direction over the entries of a group.
type groupTotal struct {
	bytes                 int64
	leastMS, mostMS       int64 // runtime
	leastBytes, mostBytes int64 // per second
	entries               int
}

func (g *groupTotal) add(s *Stats) {
	if s == nil || s.RuntimeMS == 0 {
		return
	}
	rate := s.Bytes * 1000 / s.RuntimeMS
	if g.entries == 0 || s.RuntimeMS < g.leastMS {
		g.leastMS = s.RuntimeMS
	}
	if g.entries == 0 || rate < g.leastBytes {
		g.leastBytes = rate
	}
	g.mostMS = max(g.mostMS, s.RuntimeMS)
	g.mostBytes = max(g.mostBytes, rate)
	g.bytes += s.Bytes
	g.entries++
}

// bytesPerSecond is what the group moved in the time of its longest worker.
func (g *groupTotal) bytesPerSecond() int64 {
	if g.mostMS == 0 {
		return 0
	}
	return g.bytes * 1000 / g.mostMS
}
