package page

import (
	"fmt"
	"html/template"

	"github.com/spillway-kv/spillway/fio/chart"
	"github.com/spillway-kv/spillway/fio/sweep"
)

// sweepFigure shows throughput and P99 against the depth.
func sweepFigure(s *sweep.Sweep) (figure, bool) {
	if s == nil || len(s.Points) == 0 {
		return figure{}, false
	}
	caption := fmt.Sprintf("The knee is at depth %d: there throughput over latency is greatest, beyond it more depth buys mostly waiting. 95 %% of the greatest throughput is reached at depth %d.", s.Knee, s.Saturation)
	if s.Judged() {
		caption += " " + underBudget(s)
	}
	return both("Throughput against depth", caption, []legend{{"read", "throughput"}, {"service", "P99"}}, func(size size) template.HTML { return drawSweep(s, size) }), true
}

func underBudget(s *sweep.Sweep) string {
	if s.DepthUnderBudget == 0 {
		return "No depth passes."
	}
	if s.Points[0].LoadsP99 > 0 {
		return fmt.Sprintf("Up to depth %d loading whole prefixes beats computing them.", s.DepthUnderBudget)
	}
	return fmt.Sprintf("Up to depth %d P99 stays under the budget.", s.DepthUnderBudget)
}

func drawSweep(s *sweep.Sweep, size size) template.HTML {
	const top, height, between = 40.0, 150.0, 58.0
	var rates, latencies, depths []float64
	for _, p := range s.Points {
		rates, depths = append(rates, p.BWBytes/1e6), append(depths, float64(p.Depth))
		latencies = append(latencies, float64(p.P99NS), float64(p.LowNS), float64(p.HighNS))
	}
	if s.BudgetNS > 0 {
		latencies = append(latencies, float64(s.BudgetNS))
	}
	c := &chart.Canvas{}
	upper := newPlot(c, size, top, height, "bandwidth, MB/s")
	lower := newPlot(c, size, top+height+between, height, "P99 of I/Os")
	x := chart.Log(depths, 2, left+16, upper.end()-16)
	bandwidth := chart.Linear(rates, 4, upper.bottom(), upper.top)
	delay := chart.Log(latencies, 2, lower.bottom(), lower.top)
	upper.yAxis(bandwidth, bandwidth.Ticks(), chart.Number)
	lower.yAxis(delay, latencyTicks(delay, 6), latency)
	upper.xAxis(x, nil, nil)
	lower.xAxis(x, depths, chart.Number)
	c.Text(upper.end(), lower.bottom()+bottom+8, "end", `class="axisTitle"`, "queue depth")
	mark(c, x.At(float64(s.Knee)), upper.top, lower.bottom(), size, "knee")
	lower.budgetAcross(delay, s.BudgetNS)
	var throughput, p99 []chart.Point
	description := fmt.Sprintf("Knee at depth %d. ", s.Knee)
	for _, p := range s.Points {
		at := x.At(float64(p.Depth))
		throughput = append(throughput, chart.Point{X: at, Y: bandwidth.At(p.BWBytes / 1e6)})
		p99 = append(p99, chart.Point{X: at, Y: delay.At(float64(p.P99NS))})
		if p.LowNS > 0 {
			c.Line(at, delay.At(float64(p.LowNS)), at, delay.At(float64(p.HighNS)), `class="interval service"`)
		}
		description += fmt.Sprintf("Depth %d: %s, P99 %s. ", p.Depth, rate(p.BWBytes), latency(float64(p.P99NS)))
	}
	c.Path(throughput, `class="line read"`)
	c.Path(p99, `class="line service"`)
	for i := range throughput {
		c.Dot(throughput[i].X, throughput[i].Y, `class="dot read"`)
		c.Dot(p99[i].X, p99[i].Y, `class="dot service"`)
	}
	return size.picture(c, lower.bottom()+bottom+14, "Throughput and P99 against queue depth", description)
}

// mark is a line down through both plots, with its name to the side where there is
// room.
func mark(c *chart.Canvas, x, top, bottom float64, s size, text string) {
	c.Line(x, top-4, x, bottom, `class="mark"`)
	if x > s.width-80 {
		c.Text(x-6, top+12, "end", `class="markText"`, text)
		return
	}
	c.Text(x+6, top+12, "start", `class="markText"`, text)
}
