package result

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// text writes the lines of one direction; nothing if it was not used.
func (s *Stats) text(b *bytes.Buffer, direction string) {
	if s == nil || s.RuntimeMS == 0 {
		return
	}
	perSecond := func(n int64) uint64 { return uint64(n) * 1000 / uint64(s.RuntimeMS) }
	bw, bwDecimal := sizes(perSecond(s.Bytes), "/s")
	moved, _ := sizes(uint64(s.Bytes), "")
	fmt.Fprintf(b, "  %s: IOPS=%s, BW=%s (%s)(%s/%dmsec)", direction, short(perSecond(s.IOs), figures, false, ""), bw, bwDecimal, moved, s.RuntimeMS)
	if direction == directionNames[Write] {
		b.WriteString("; 0 zone resets")
	}
	b.WriteString("\n")
	s.Slat.text(b, "slat")
	s.Clat.text(b, "clat")
	s.Lat.text(b, " lat")
	s.Slat.Percentiles.text(b, "slat")
	s.Clat.Percentiles.text(b, "clat")
	s.Lat.Percentiles.text(b, "lat")
	s.intervals(b)
}

// intervals writes the lines of bandwidth and IOPS, where there were whole
// intervals.
func (s *Stats) intervals(b *bytes.Buffer) {
	if s.BWSamples > 0 && s.BWMin != nil && s.BWMax != nil && s.BWMean != nil && s.BWDev != nil {
		unit, low, high, mean, dev := "KiB", *s.BWMin, *s.BWMax, *s.BWMean, *s.BWDev
		share := Decimal(100)
		if s.BWAgg != nil {
			share = *s.BWAgg
		}
		if mean > 1<<20 {
			unit, low, high, mean, dev = "MiB", low>>10, high>>10, mean/1024, dev/1024
		}
		fmt.Fprintf(b, "   bw (%5s/s): min=%5d, max=%5d, per=%.2f%%, avg=%5.2f, stdev=%5.2f, samples=%d\n", unit, low, high, share, mean, dev, s.BWSamples)
	}
	if s.IOPSSamples > 0 && s.IOPSMin != nil && s.IOPSMax != nil && s.IOPSMean != nil && s.IOPSStddev != nil {
		fmt.Fprintf(b, "   iops        : min=%5d, max=%5d, avg=%5.2f, stdev=%5.2f, samples=%d\n",
			*s.IOPSMin, *s.IOPSMax, *s.IOPSMean, *s.IOPSStddev, s.IOPSSamples)
	}
}

// text writes the line of a latency; nothing without samples.
func (l *Latency) text(b *bytes.Buffer, name string) {
	if l.N == 0 || l.Min == nil || l.Max == nil || l.Mean == nil || l.Stddev == nil {
		return
	}
	unit, divisor := scaleOf(*l.Min, *l.Max, float64(*l.Stddev))
	number := func(ns int64) string { return short(uint64(ns/divisor), 6, false, "") }
	fmt.Fprintf(b, "    %s (%s): min=%s, max=%s, avg=%5.2f, stdev=%5.2f\n", name, unit,
		number(*l.Min), number(*l.Max), float64(*l.Mean)/float64(divisor), float64(*l.Stddev)/float64(divisor))
}

// text writes a block of percentiles, as many a line as 80 columns hold. Their
// names have the decimals that they need.
func (p Percentiles) text(b *bytes.Buffer, name string) {
	if len(p) == 0 {
		return
	}
	minNS, maxNS := p[0].NS, p[len(p)-1].NS
	unit, divisor := scaleOf(minNS, maxNS, anyDeviation)
	width := max(5, len(strconv.FormatInt(maxNS/divisor, 10)))
	decimals := 0
	for _, q := range p {
		_, digits, _ := strings.Cut(strconv.FormatFloat(q.Percent, 'f', -1, 64), ".")
		decimals = max(decimals, len(digits))
	}
	const columns = 80 - 7
	perLine := max(columns/(decimals+10+width), 1)
	fmt.Fprintf(b, "    %s percentiles (%s):\n", name, unit)
	for i, q := range p {
		if i%perLine == 0 {
			b.WriteString("     |")
		}
		fmt.Fprintf(b, " %*.*fth=[%*d]", decimals+3, decimals, q.Percent, width, (q.NS+divisor-1)/divisor)
		if i < len(p)-1 {
			b.WriteString(",")
		}
		if i%perLine == perLine-1 || i == len(p)-1 {
			b.WriteString("\n")
		}
	}
}
