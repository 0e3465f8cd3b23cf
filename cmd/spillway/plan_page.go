package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/spillway-kv/spillway/fio/chart"
)

//go:embed plan_page.html
var planPageText string

var planPage = template.Must(template.New("plan").Parse(planPageText))

// planView is what the page shows.
type planView struct {
	Title, Headline string
	Default         string
	Figures         []planFigure
	Tables          []planTable
}

type planFigure struct {
	Title, Caption string
	Legend         []planLegend
	Wide, Narrow   template.HTML
}

type planLegend struct {
	Name  string
	Class string // of its colour
}

type planTable struct {
	Title string
	Rows  [][]string
}

// planLine is one curve.
type planLine struct {
	class string
	x, y  []float64
}

// page writes the report as one HTML file that needs nothing else.
func (r *planReport) page(w io.Writer) error {
	v := planView{Title: r.Trace, Headline: r.headline(), Default: r.DefaultPolicy}
	if v.Title == "" {
		v.Title = "Generated chats"
	}
	v.Figures = append(v.Figures,
		r.curves("Prefix hits by capacity", "Blocks that are there with all blocks before them, of all that requests name. The dotted line is a store that keeps everything.",
			func(row *planRow) float64 { return 100 * row.PrefixHitRatio }, 100*r.Ceiling),
		r.curves("Writes by capacity", "Blocks stored for 100 blocks that requests name.", func(row *planRow) float64 { return 100 * row.WritesPerRef }, 0))
	if r.restartAt > 0 {
		v.Figures = append(v.Figures, r.overTime())
	}
	v.Tables = append(v.Tables, planTable{"Hits and writes", r.hits()})
	if r.BlockBytes > 0 {
		v.Tables = append(v.Tables, planTable{"Drives", r.drives()})
	}
	if r.Placements != nil {
		v.Tables = append(v.Tables, planTable{fmt.Sprintf("%d of %d nodes lost", r.Placements[0].Lose, r.Placements[0].Nodes), r.placements()})
	}
	return planPage.Execute(w, v)
}

// curves draws a value of each policy over the capacity, which is spread by its
// logarithm.
func (r *planReport) curves(title, caption string, value func(*planRow) float64, limit float64) planFigure {
	var lines []planLine
	var names []string
	for i := range r.Rows {
		row := &r.Rows[i]
		at := slices.Index(names, row.Policy)
		if at < 0 {
			at = len(names)
			names = append(names, row.Policy)
			lines = append(lines, planLine{class: fmt.Sprintf("c%d", at%6)})
		}
		lines[at].x = append(lines[at].x, math.Log2(float64(row.CapacityBlocks)))
		lines[at].y = append(lines[at].y, value(row))
	}
	ticks := map[float64]string{}
	for i := range r.Rows {
		ticks[math.Log2(float64(r.Rows[i].CapacityBlocks))] = r.Rows[i].Capacity
	}
	return newPlanFigure(title, caption, names, lines, ticks, limit)
}

// overTime draws the default's prefix hits, or the first policy's, with and without the
// restart, at the first capacity.
func (r *planReport) overTime() planFigure {
	row := &r.Rows[max(slices.IndexFunc(r.Rows, func(row planRow) bool { return row.Policy == r.DefaultPolicy }), 0)]
	lines := []planLine{{class: "c0"}, {class: "c1"}}
	for m := range row.Restart.PerMinute {
		for i, hits := range [][]int{row.Restart.PerMinute, row.Restart.PerMinuteRestarted} {
			lines[i].x = append(lines[i].x, float64(m))
			lines[i].y = append(lines[i].y, float64(hits[m]))
		}
	}
	ticks := map[float64]string{}
	last := len(row.Restart.PerMinute) - 1
	for m := 0; m <= last; m += max(last/4, 1) {
		ticks[float64(m)] = fmt.Sprintf("%d min", m)
	}
	return newPlanFigure("Prefix hits over time", fmt.Sprintf("Blocks a minute, %s at %s, closed and opened at %v.", row.Policy, row.Capacity, r.restartAt),
		[]string{"not restarted", "restarted"}, lines, ticks, 0)
}

func newPlanFigure(title, caption string, names []string, lines []planLine, ticks map[float64]string, limit float64) planFigure {
	f := planFigure{Title: title, Caption: caption}
	for i, name := range names {
		f.Legend = append(f.Legend, planLegend{name, lines[i].class})
	}
	f.Wide = drawLines(title, lines, ticks, limit, 920, 340)
	f.Narrow = drawLines(title, lines, ticks, limit, 340, 260)
	return f
}

// drawLines is one picture.
func drawLines(title string, lines []planLine, ticks map[float64]string, limit, width, height float64) template.HTML {
	const left, top, right, below = 42.0, 12.0, 16.0, 28.0
	values := []float64{limit}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		values = append(values, l.y...)
		low, high = min(low, slices.Min(l.x)), max(high, slices.Max(l.x))
	}
	y := chart.Linear(values, 5, height-below, top)
	x := func(v float64) float64 {
		if high == low {
			return (left + width - right) / 2
		}
		return left + (v-low)/(high-low)*(width-left-right)
	}
	var c chart.Canvas
	for _, tick := range y.Ticks() {
		c.Line(left, y.At(tick), width-right, y.At(tick), `class="grid"`)
		c.Text(left-6, y.At(tick)+4, "end", `class="tick"`, chart.Number(tick))
	}
	for at, name := range ticks {
		c.Text(x(at), height-8, "middle", `class="tick"`, name)
	}
	if limit > 0 {
		c.Line(left, y.At(limit), width-right, y.At(limit), `class="limit"`)
	}
	for _, l := range lines {
		var points []chart.Point
		for i := range l.x {
			points = append(points, chart.Point{X: x(l.x[i]), Y: y.At(l.y[i])})
		}
		if len(points) > 1 {
			c.Path(points, `class="line `+l.class+`"`)
		}
		for _, p := range points {
			if len(points) <= 12 {
				c.Dot(p.X, p.Y, `class="dot `+l.class+`"`)
			}
		}
	}
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">%s</svg>`, width, height, template.HTMLEscapeString(title), c.Elements()))
}
