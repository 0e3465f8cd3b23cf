package page

import (
	"fmt"
	"html/template"
	"math"

	"github.com/spillway-kv/spillway/engine/histogram"
	"github.com/spillway-kv/spillway/fio/chart"
	"github.com/spillway-kv/spillway/fio/result"
)

// line is one distribution in a picture.
type line struct {
	name, class string
	latency     *result.Latency
}

// distributions are those of an entry that have bins: the whole latency, or its
// part from submission on where only that was kept.
func distributions(j *result.Job) (all []line) {
	add := func(name, class string, s *result.Stats) {
		if s == nil {
			return
		}
		for _, l := range []struct {
			name    string
			latency *result.Latency
		}{{name, &s.Lat}, {name + ", from submission", &s.Clat}} {
			if l.latency.N > 0 && len(l.latency.Bins) > 0 && l.latency.Min != nil && l.latency.Max != nil {
				all = append(all, line{l.name, class, l.latency})
				return
			}
		}
	}
	add("read", "read", j.Read)
	add("write", "write", j.Write)
	add("trim", "write", j.Trim)
	if s := j.Spillway; s != nil && s.OpenLoop && s.Read != nil {
		if l := s.Read.ServiceNS; l != nil && l.N > 0 && len(l.Bins) > 0 && l.Min != nil && l.Max != nil {
			all = append(all, line{"read, service time alone", "service", l})
		}
	}
	return all
}

// quantile is the nearest rank in bins, within the extremes.
func quantile(l *result.Latency, q float64) float64 {
	rank := max(math.Ceil(q*float64(l.N)-1e-9), 1)
	running := 0.0
	for _, b := range l.Bins {
		if running += float64(b.Count); running >= rank {
			return float64(min(max(b.MidpointNS, *l.Min), *l.Max))
		}
	}
	return float64(*l.Max)
}

// barsPerTwo is how many bars of a histogram a power of two gets: few enough that
// each holds something.
const barsPerTwo = 8

// bars joins bins into bars of equal width on a logarithmic axis; each value is a
// share of all.
func bars(bins []histogram.Bin, all int64) map[int]float64 {
	sums := map[int]float64{}
	for _, b := range bins {
		at := int(math.Floor(math.Log2(max(float64(b.MidpointNS), 1)) * barsPerTwo))
		sums[at] += float64(b.Count) / float64(all)
	}
	return sums
}

func lineLegend(lines []line) (all []legend) {
	for _, l := range lines {
		all = append(all, legend{l.class, l.name})
	}
	return all
}

// distributionFigure shows how many I/Os took how long.
func distributionFigure(lines []line, budgetNS int64) figure {
	return both("How long I/Os took", "Each step is the share of I/Os that took about so long. The axis is logarithmic; what lies beyond 1 in 2000 on either side is left to the next picture.",
		lineLegend(lines), func(s size) template.HTML { return drawDistribution(lines, budgetNS, s) })
}

func drawDistribution(lines []line, budgetNS int64, s size) template.HTML {
	const top, height = 40.0, 190.0
	var values, shares []float64
	description := ""
	for _, l := range lines {
		values = append(values, quantile(l.latency, 0.0005), min(quantile(l.latency, 0.9995)*1.1, float64(*l.latency.Max)))
		for _, share := range bars(l.latency.Bins, l.latency.N) {
			shares = append(shares, share*100)
		}
		description += fmt.Sprintf("%s: half within %s, 99 %% within %s. ", l.name, latency(quantile(l.latency, 0.5)), latency(quantile(l.latency, 0.99)))
	}
	if budgetNS > 0 {
		values = append(values, float64(budgetNS))
	}
	c := &chart.Canvas{}
	p := newPlot(c, s, top, height, "share of I/Os, %")
	x := chart.Log(values, math.Pow(2, 0.25), left, p.end())
	y := chart.Linear(shares, 4, p.bottom(), top)
	p.yAxis(y, y.Ticks(), chart.Number)
	p.xAxis(x, latencyTicks(x, s.steps+2), latency)
	for _, l := range lines {
		points := steps(bars(l.latency.Bins, l.latency.N), x, y)
		c.Area(points, p.bottom(), `class="area `+l.class+`"`)
		c.Path(points, `class="line `+l.class+`"`)
	}
	if budgetNS > 0 {
		at := x.At(float64(budgetNS))
		c.Line(at, top-4, at, p.bottom(), `class="budget"`)
		label(c, at, top-8, s, "budgetText", "budget")
	}
	return s.picture(c, p.bottom()+bottom, "Distribution of latencies", description)
}

// steps outlines bars; those beyond the axis are left out.
func steps(shares map[int]float64, x, y chart.Scale) (points []chart.Point) {
	edge := func(at int) float64 { return math.Pow(2, float64(at)/barsPerTwo) }
	first, last := int(math.Floor(math.Log2(x.Low)*barsPerTwo)), int(math.Ceil(math.Log2(x.High)*barsPerTwo))
	for at := first; at < last; at++ {
		height := y.At(shares[at] * 100)
		points = append(points, chart.Point{X: x.At(edge(at)), Y: height}, chart.Point{X: x.At(edge(at + 1)), Y: height})
	}
	return points
}

// tailFigure shows the slow end: percentiles at equal steps of rarity.
func tailFigure(lines []line, budgetNS int64) figure {
	return both("The slow end", "How long the slowest 1 in 10, 100, 1000 and so on took. A curve that turns up late is a drive with rare hiccups.",
		lineLegend(lines), func(s size) template.HTML { return drawTail(lines, budgetNS, s) })
}

func drawTail(lines []line, budgetNS int64, s size) template.HTML {
	const top, height = 40.0, 190.0
	values, rarest := []float64{}, 100.0
	for _, l := range lines {
		values = append(values, quantile(l.latency, 0.5), float64(*l.latency.Max))
		rarest = max(rarest, min(float64(l.latency.N), s.rarest))
	}
	if budgetNS > 0 {
		values = append(values, float64(budgetNS))
	}
	c := &chart.Canvas{}
	p := newPlot(c, s, top, height, "latency")
	x := chart.Log([]float64{1, rarest}, 10, left, p.end()-8)
	y := chart.Log(values, 2, p.bottom(), top)
	p.yAxis(y, latencyTicks(y, 7), latency)
	p.xAxis(x, x.Ticks(), percentileName)
	p.budgetAcross(y, budgetNS)
	description := ""
	for _, l := range lines {
		var points []chart.Point
		most := min(float64(l.latency.N), x.High)
		for exponent := 0.0; ; exponent += 0.05 {
			rarity := min(math.Pow(10, exponent), most)
			points = append(points, chart.Point{X: x.At(rarity), Y: y.At(quantile(l.latency, 1-1/rarity))})
			if rarity >= most {
				break
			}
		}
		c.Path(points, `class="line `+l.class+`"`)
		description += fmt.Sprintf("%s: P99.9 %s, the slowest %s. ", l.name, latency(quantile(l.latency, 0.999)), latency(float64(*l.latency.Max)))
	}
	return s.picture(c, p.bottom()+bottom, "Percentiles of latency", description)
}

// percentileName of 1 in rarity: P90, P99, P99.9.
func percentileName(rarity float64) string {
	if rarity <= 1 {
		return "fastest"
	}
	return "P" + fmt.Sprint(math.Round((100-100/rarity)*1e6)/1e6)
}
