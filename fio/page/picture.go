package page

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/spillway-kv/spillway/fio/chart"
)

// size is one of the two widths that each picture is drawn for.
type size struct {
	width  float64
	steps  int     // ticks of a linear axis
	rarest float64 // how far a tail goes: 1 I/O of so many
}

var (
	wide   = size{960, 8, 1e5}
	narrow = size{340, 4, 1e4}
)

// margins of a plot: room for labels.
const (
	left, right = 64.0, 14.0
	bottom      = 26.0
)

// picture wraps what was drawn; title and description are for those who do not see
// it.
func (s size) picture(c *chart.Canvas, height float64, title, description string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><title>%s</title>`+"\n%s</svg>",
		s.width, height, chart.Escape(title+". "+description), chart.Escape(title), c.Elements()))
}

// plot is the area between axes.
type plot struct {
	*chart.Canvas
	size
	top, height float64
}

// newPlot has a title above it, at the left.
func newPlot(c *chart.Canvas, s size, top, height float64, title string) plot {
	c.Text(2, top-10, "start", `class="axisTitle"`, title)
	return plot{c, s, top, height}
}

func (p plot) end() float64    { return p.width - right }
func (p plot) bottom() float64 { return p.top + p.height }

// yAxis draws lines across at the ticks, and what they stand for.
func (p plot) yAxis(y chart.Scale, ticks []float64, name func(float64) string) {
	for _, v := range ticks {
		p.Line(left, y.At(v), p.end(), y.At(v), `class="grid"`)
		p.Text(left-7, y.At(v)+4, "end", `class="tick"`, name(v))
	}
}

// xAxis draws ticks below.
func (p plot) xAxis(x chart.Scale, ticks []float64, name func(float64) string) {
	for _, v := range ticks {
		p.Line(x.At(v), p.bottom(), x.At(v), p.bottom()+4, `class="axis"`)
		at, anchor := x.At(v), "middle"
		if at > p.end()-10 { // room for the last label
			at, anchor = p.width-2, "end"
		}
		p.Text(at, p.bottom()+17, anchor, `class="tick"`, name(v))
	}
	p.Line(left, p.bottom(), p.end(), p.bottom(), `class="axis"`)
}

// budgetAcross draws the budget at a height.
func (p plot) budgetAcross(y chart.Scale, budgetNS int64) {
	if budgetNS == 0 {
		return
	}
	at := y.At(float64(budgetNS))
	p.Line(left, at, p.end(), at, `class="budget"`)
	p.Text(left+6, at-5, "start", `class="budgetText"`, "budget "+latency(float64(budgetNS)))
}

// latencyTicks are round latencies within a logarithmic scale, at most so many.
func latencyTicks(s chart.Scale, most int) []float64 {
	for _, factors := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		if all := multiples(s, factors); len(all) <= most {
			return all
		}
	}
	all := multiples(s, []float64{1})
	for len(all) > most {
		var fewer []float64
		for i := 0; i < len(all); i += 2 {
			fewer = append(fewer, all[i])
		}
		all = fewer
	}
	return all
}

func multiples(s chart.Scale, factors []float64) (all []float64) {
	for power := 1.0; power <= s.High; power *= 10 {
		for _, f := range factors {
			if v := f * power; v >= s.Low*0.999 && v <= s.High*1.001 {
				all = append(all, v)
			}
		}
	}
	return all
}

// unitTicks draws a linear axis below what it measures, from top to bottom.
func unitTicks(c *chart.Canvas, x chart.Scale, top, bottom float64, write func(float64) string) {
	for i, v := range x.Ticks() {
		anchor := "middle"
		if i == 0 {
			anchor = "start"
		} else if v >= x.High*0.999 {
			anchor = "end"
		}
		c.Line(x.At(v), top, x.At(v), bottom, `class="grid"`)
		c.Text(x.At(v), bottom+18, anchor, `class="tick"`, write(v))
	}
}

// label writes beside a place, to the side where there is room.
func label(c *chart.Canvas, x, y float64, s size, class, text string) {
	anchor := "middle"
	room := float64(len([]rune(text))) * 3.6
	switch {
	case x < room+4:
		anchor, x = "start", max(x, 4)
	case x > s.width-room-4:
		anchor, x = "end", min(x, s.width-4)
	}
	c.Text(x, y, anchor, `class="`+class+`"`, text)
}

// both draws a figure for both widths.
func both(title, caption string, legend []legend, draw func(s size) template.HTML) figure {
	return figure{Title: title, Caption: strings.TrimSpace(caption), Legend: legend, Wide: draw(wide), Narrow: draw(narrow)}
}
