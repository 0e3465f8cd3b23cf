package chart

import (
	"github.com/spillway-kv/spillway/fio/chart"
	"github.com/spillway-kv/spillway/fio/spread"
)

// Ratio is one row: a ratio with its spread, and, where they exist, the spread
// of the reference against itself and the bar.
type Ratio struct {
	Label   string
	Ratio   spread.Spread
	Self    *spread.Spread
	Bar     *spread.Bar
	Verdict spread.Verdict
}

var colours = map[spread.Verdict]string{spread.Met: "#1b7f3b", spread.WithinNoise: "#c08a00", spread.Missed: "#b3261e"}

// Ratios draws one row a ratio on a logarithmic axis: a dot at the median, a
// line over the middle 80 %, a grey band for the reference against itself, and
// a tick at the bar. Green is met, amber is met within noise, red is missed,
// blue has no bar.
func Ratios(title string, rows []Ratio) []byte {
	const left, width, rowHeight, top = 390.0, 900.0, 18.0, 62.0
	values := []float64{1}
	for _, r := range rows {
		values = append(values, r.Ratio.Low, r.Ratio.High)
		if r.Self != nil {
			values = append(values, r.Self.Low, r.Self.High)
		}
		if r.Bar != nil {
			values = append(values, r.Bar.Limit)
		}
	}
	x := chart.Log(values, 2, left, width-20)
	bottom := top + rowHeight*float64(len(rows))
	var c chart.Canvas
	c.Text(14, 24, "start", bold, title)
	c.Text(14, 42, "start", small, "dot: median, line: middle 80 %, grey: reference against itself, tick: bar; green met, amber within noise, red missed, blue no bar")
	for _, v := range x.Ticks() {
		c.Line(x.At(v), top-6, x.At(v), bottom, gray)
		c.Text(x.At(v), bottom+16, "middle", small, chart.Number(v))
	}
	c.Line(x.At(1), top-6, x.At(1), bottom, `stroke="#808080"`)
	for i, r := range rows {
		y := top + rowHeight*(float64(i)+0.5)
		colour := colours[r.Verdict]
		if colour == "" {
			colour = "#2a5db0"
		}
		c.Text(left-12, y+4, "end", dark, r.Label)
		if r.Ratio.Median <= 0 {
			continue
		}
		if r.Self != nil {
			c.Rect(x.At(r.Self.Low), y-5, max(x.At(r.Self.High)-x.At(r.Self.Low), 1), 10, `fill="#dddddd"`)
		}
		c.Line(x.At(r.Ratio.Low), y, x.At(r.Ratio.High), y, `stroke-width="2" stroke="`+colour+`"`)
		c.Dot(x.At(r.Ratio.Median), y, `fill="`+colour+`"`)
		if r.Bar != nil {
			c.Line(x.At(r.Bar.Limit), y-7, x.At(r.Bar.Limit), y+7, `stroke-width="2" stroke="#202020"`)
		}
	}
	return picture(&c, width, bottom+30)
}
