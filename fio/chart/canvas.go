// Package chart has what pictures of measurements are made of: elements of SVG, and
// scales with round ticks. What is drawn is its users' business.
package chart

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Canvas collects the elements of one picture. Coordinates are pixels from the
// upper left; style is written into the element as attributes, as in `class="axis"`.
type Canvas struct{ body strings.Builder }

// Line draws from one point to another.
func (c *Canvas) Line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(&c.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

// Rect draws a rectangle from its upper left corner.
func (c *Canvas) Rect(x, y, width, height float64, style string) {
	fmt.Fprintf(&c.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>`+"\n", x, y, width, height, style)
}

// Dot draws a small disc.
func (c *Canvas) Dot(x, y float64, style string) {
	fmt.Fprintf(&c.body, `<circle cx="%.1f" cy="%.1f" r="3.5" %s/>`+"\n", x, y, style)
}

// Point is a place on a canvas.
type Point struct{ X, Y float64 }

// Path draws a line through points, two at least.
func (c *Canvas) Path(points []Point, style string) {
	if len(points) < 2 {
		return
	}
	c.body.WriteString(`<polyline points="`)
	for i, p := range points {
		if i > 0 {
			c.body.WriteByte(' ')
		}
		fmt.Fprintf(&c.body, "%.1f,%.1f", p.X, p.Y)
	}
	fmt.Fprintf(&c.body, `" %s/>`+"\n", style)
}

// Area fills what lies between points, from left to right, and a baseline.
func (c *Canvas) Area(points []Point, baseline float64, style string) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(&c.body, `<polygon points="%.1f,%.1f`, points[0].X, baseline)
	for _, p := range points {
		fmt.Fprintf(&c.body, " %.1f,%.1f", p.X, p.Y)
	}
	fmt.Fprintf(&c.body, ` %.1f,%.1f" %s/>`+"\n", points[len(points)-1].X, baseline, style)
}

// Text writes at the baseline; anchor is start, middle or end.
func (c *Canvas) Text(x, y float64, anchor, style, text string) {
	fmt.Fprintf(&c.body, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, Escape(text))
}

// Elements is what was drawn, to be wrapped into an svg element.
func (c *Canvas) Elements() string { return c.body.String() }

// Escape makes text fit for the content of an element.
func Escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}
