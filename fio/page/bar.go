package page

import (
	"fmt"
	"html/template"

	"github.com/spillway-kv/spillway/fio/chart"
)

// bar is a measured P99 with its interval on a line from 0, and a limit on it.
type bar struct {
	title     string
	p99       float64
	low, high float64 // ends of the interval; high 0: there is none
	limit     float64
	limitName string
	write     func(v float64) string // a value, in words
}

func (b bar) draw(s size) template.HTML {
	values := []float64{b.limit * 1.15, b.p99 * 1.1, b.high * 1.02}
	c := &chart.Canvas{}
	const top, height = 38.0, 16.0
	x := chart.Linear(values, s.steps, 12, s.width-12)
	unitTicks(c, x, top, top+height, b.write)
	end := x.At(b.p99)
	c.Rect(x.At(0), top, end-x.At(0), height, `class="bar"`)
	if b.high > 0 {
		low, high := x.At(b.low), x.At(b.high)
		c.Line(low, top+height/2, high, top+height/2, `class="interval"`)
		c.Line(low, top+3, low, top+height-3, `class="interval"`)
		c.Line(high, top+3, high, top+height-3, `class="interval"`)
	}
	at := x.At(b.limit)
	c.Line(at, top-14, at, top+height+5, `class="budget"`)
	label(c, at, top-20, s, "budgetText", b.limitName+" "+b.write(b.limit))
	label(c, end, top-4, s, "text", "P99 "+b.write(b.p99))
	return s.picture(c, top+height+24, b.title, fmt.Sprintf("P99 is %s, the %s is %s.", b.write(b.p99), b.limitName, b.write(b.limit)))
}
