package chart

import (
	"math"

	"github.com/spillway-kv/spillway/fio/chart"
)

// Panel is one diagram: series over the same points on the horizontal axis,
// which are drawn at equal distances.
type Panel struct {
	Title  string
	X      []string
	Series []Series
}

// Series is one line. Y that is not above 0 is left out.
type Series struct {
	Name string
	Y    []float64
}

var palette = []string{"#1b7f3b", "#b3261e", "#2a5db0", "#c08a00", "#6b3fa0", "#007a87", "#707070", "#d14f8f"}

// Lines draws panels side by side, each with a logarithmic vertical axis of its
// own, and one legend for all: a series has the same colour in every panel.
func Lines(title, yName string, panels []Panel) []byte {
	const panelWidth, plotHeight, top = 300.0, 240.0, 76.0
	var c chart.Canvas
	c.Text(14, 24, "start", bold, title)
	var names []string
	colour := map[string]string{}
	for _, p := range panels {
		for _, s := range p.Series {
			if colour[s.Name] == "" {
				colour[s.Name] = palette[len(names)%len(palette)]
				names = append(names, s.Name)
			}
		}
	}
	for i, p := range panels {
		drawPanel(&c, p, panelWidth*float64(i)+62, top, panelWidth-80, plotHeight, colour)
	}
	c.Text(14, top-24, "start", small, yName)
	y := top + plotHeight + 48
	for i, name := range names {
		x := 30 + float64(i%4)*230
		row := y + 18*math.Floor(float64(i)/4)
		c.Line(x, row-4, x+22, row-4, `stroke-width="2" stroke="`+colour[name]+`"`)
		c.Text(x+28, row, "start", dark, name)
	}
	return picture(&c, max(panelWidth*float64(len(panels)), 600), y+18*math.Ceil(float64(len(names))/4)+6)
}

func drawPanel(c *chart.Canvas, p Panel, left, top, width, height float64, colour map[string]string) {
	var values []float64
	for _, s := range p.Series {
		values = append(values, s.Y...)
	}
	base := 10.0
	y := chart.Log(values, base, top+height, top)
	if y.High/y.Low < 50 { // less than two decades: finer lines
		base = 2
		y = chart.Log(values, base, top+height, top)
	}
	c.Text(left+width/2, top-10, "middle", dark, p.Title)
	for _, v := range y.Ticks() {
		c.Line(left, y.At(v), left+width, y.At(v), gray)
		c.Text(left-6, y.At(v)+4, "end", small, chart.Number(v))
	}
	x := func(i int) float64 {
		if len(p.X) == 1 {
			return left + width/2
		}
		return left + 12 + (width-24)*float64(i)/float64(len(p.X)-1)
	}
	for i, name := range p.X {
		c.Text(x(i), top+height+18, "middle", small, name)
	}
	for _, s := range p.Series {
		last := -1
		for i, v := range s.Y {
			if v <= 0 || i >= len(p.X) {
				continue
			}
			if last >= 0 {
				c.Line(x(last), y.At(s.Y[last]), x(i), y.At(v), `stroke-width="2" stroke="`+colour[s.Name]+`"`)
			}
			c.Dot(x(i), y.At(v), `fill="`+colour[s.Name]+`"`)
			last = i
		}
	}
}
