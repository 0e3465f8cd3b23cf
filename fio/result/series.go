package result

// SeriesIntervalNS is the length of an interval of a series: fio's bwavgtime.
const SeriesIntervalNS = 500e6

// seriesPointsMax bounds a series. One that grows longer halves its resolution.
const seriesPointsMax = 1024

// series counts I/Os in intervals of equal length. The zero value is empty.
type series struct {
	points [seriesPointsMax]point
	used   int
	fold   uint // an interval is SeriesIntervalNS << fold
}

// point is one interval.
type point struct {
	ios, bytes   uint64
	latencySumNS int64
	latencyMaxNS int64
}

// add counts an I/O that ended at offsetNS after the begin.
func (s *series) add(offsetNS, bytes, latencyNS int64) {
	i := int(max(offsetNS, 0) / (SeriesIntervalNS << s.fold))
	for i >= seriesPointsMax {
		s.halve()
		i /= 2
	}
	p := &s.points[i]
	p.ios++
	p.bytes += uint64(bytes)
	p.latencySumNS += latencyNS
	p.latencyMaxNS = max(p.latencyMaxNS, latencyNS)
	s.used = max(s.used, i+1)
}

// halve joins neighbours.
func (s *series) halve() {
	for i := range seriesPointsMax / 2 {
		p := s.points[2*i]
		p.merge(s.points[2*i+1])
		s.points[i] = p
	}
	clear(s.points[seriesPointsMax/2:])
	s.used = (s.used + 1) / 2
	s.fold++
}

// merge adds other, which began at the same time. s keeps the coarser of both
// resolutions.
func (s *series) merge(other *series) {
	o := *other
	for o.fold < s.fold {
		o.halve()
	}
	for s.fold < o.fold {
		s.halve()
	}
	for i := range o.used {
		s.points[i].merge(o.points[i])
	}
	s.used = max(s.used, o.used)
}

func (p *point) merge(other point) {
	p.ios += other.ios
	p.bytes += other.bytes
	p.latencySumNS += other.latencySumNS
	p.latencyMaxNS = max(p.latencyMaxNS, other.latencyMaxNS)
}
