package page

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/spillway-kv/spillway/fio/chart"
	"github.com/spillway-kv/spillway/fio/result"
)

// course is a series of one direction over time.
type course struct {
	name, class string
	series      *result.Series
}

func courses(j *result.Job) (all []course) {
	if j.Spillway == nil {
		return nil
	}
	for _, d := range []struct {
		name  string
		stats *result.SpillwayStats
	}{{"read", j.Spillway.Read}, {"write", j.Spillway.Write}} {
		if d.stats != nil && d.stats.Series != nil && len(d.stats.Series.IOs) > 1 && d.stats.Series.IntervalMS > 0 {
			all = append(all, course{d.name, d.name, d.stats.Series})
		}
	}
	return all
}

// timeFigure shows bandwidth and latency over time, one above the other.
func timeFigure(all []course, budgetNS int64) figure {
	var legends []legend
	for _, c := range all {
		legends = append(legends, legend{c.class, c.name})
	}
	caption := fmt.Sprintf("Each point sums up %s; the last one may be cut short. A full line of latency is the mean, a thin one the slowest I/O.", seconds(float64(all[0].series.IntervalMS)/1000))
	return both("Over time", caption, legends, func(s size) template.HTML { return drawTime(all, budgetNS, s) })
}

func seconds(s float64) string { return latency(s * 1e9) }

func drawTime(all []course, budgetNS int64, s size) template.HTML {
	const top, height, between = 40.0, 130.0, 58.0
	var rates, latencies, ends []float64
	for _, c := range all {
		rates = append(rates, c.rates()...)
		ends = append(ends, c.seconds(len(c.series.IOs)))
		for i, n := range c.series.IOs {
			if n > 0 {
				latencies = append(latencies, float64(c.series.LatMeanNS[i]), float64(c.series.LatMaxNS[i]))
			}
		}
	}
	if budgetNS > 0 {
		latencies = append(latencies, float64(budgetNS))
	}
	c := &chart.Canvas{}
	upper := newPlot(c, s, top, height, "bandwidth, MB/s")
	lower := newPlot(c, s, top+height+between, height, "latency")
	end := slices.Max(ends)
	x := chart.Linear([]float64{end}, s.steps, left, upper.end())
	x.High = end // no empty space at the right
	var ticks []float64
	for _, v := range x.Ticks() {
		if v <= end {
			ticks = append(ticks, v)
		}
	}
	bandwidth := chart.Linear(rates, 4, upper.bottom(), upper.top)
	delay := chart.Log(latencies, 2, lower.bottom(), lower.top)
	upper.yAxis(bandwidth, bandwidth.Ticks(), chart.Number)
	lower.yAxis(delay, latencyTicks(delay, 6), latency)
	upper.xAxis(x, nil, nil)
	lower.xAxis(x, ticks, func(v float64) string { return digits(v) + "\u00a0s" })
	lower.budgetAcross(delay, budgetNS)
	description := ""
	for _, course := range all {
		course.draw(c, x, bandwidth, delay)
		description += fmt.Sprintf("%s: from %s to %s MB/s. ", course.name, chart.Number(slices.Min(course.rates())), chart.Number(slices.Max(course.rates())))
	}
	return s.picture(c, lower.bottom()+bottom, "Bandwidth and latency over time", description)
}

// rates are megabytes a second; the last interval, which may be cut short, is left
// out.
func (c course) rates() (all []float64) {
	for _, bytes := range c.series.Bytes[:len(c.series.Bytes)-1] {
		all = append(all, float64(bytes)/1e6/(float64(c.series.IntervalMS)/1000))
	}
	return all
}

// seconds is when interval i begins.
func (c course) seconds(i int) float64 { return float64(i) * float64(c.series.IntervalMS) / 1000 }

func (c course) draw(canvas *chart.Canvas, x, bandwidth, delay chart.Scale) {
	var rates, means, slowest []chart.Point
	for i, rate := range c.rates() {
		rates = append(rates, chart.Point{X: x.At(c.seconds(i)), Y: bandwidth.At(rate)}, chart.Point{X: x.At(c.seconds(i + 1)), Y: bandwidth.At(rate)})
	}
	for i, n := range c.series.IOs {
		if n == 0 {
			continue
		}
		middle := (x.At(c.seconds(i)) + x.At(c.seconds(i+1))) / 2
		means = append(means, chart.Point{X: middle, Y: delay.At(float64(c.series.LatMeanNS[i]))})
		slowest = append(slowest, chart.Point{X: middle, Y: delay.At(float64(c.series.LatMaxNS[i]))})
	}
	canvas.Path(rates, `class="line `+c.class+`"`)
	canvas.Path(slowest, `class="thin `+c.class+`"`)
	canvas.Path(means, `class="line `+c.class+`"`)
}

// jobFigures are the pictures of one entry.
func jobFigures(j *result.Job, budgetNS int64) (all []figure) {
	if lines := distributions(j); len(lines) > 0 {
		all = append(all, distributionFigure(lines, budgetNS), tailFigure(lines, budgetNS))
	}
	if over := courses(j); len(over) > 0 {
		all = append(all, timeFigure(over, budgetNS))
	}
	return all
}
