// Package chart draws the two kinds of picture the benchmark needs as SVG:
// ratios with their spread, and lines against depth.
package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// canvas collects the elements of one picture. Coordinates are pixels from the
// upper left.
type canvas struct{ body strings.Builder }

func (c *canvas) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(&c.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

func (c *canvas) rect(x, y, width, height float64, style string) {
	fmt.Fprintf(&c.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>`+"\n", x, y, width, height, style)
}

func (c *canvas) dot(x, y float64, style string) {
	fmt.Fprintf(&c.body, `<circle cx="%.1f" cy="%.1f" r="3.5" %s/>`+"\n", x, y, style)
}

// text writes at the baseline; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, style, text string) {
	fmt.Fprintf(&c.body, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>`, x, y, anchor, style)
	_ = xml.EscapeText(&c.body, []byte(text)) // a Builder never fails
	c.body.WriteString("</text>\n")
}

// picture wraps the elements; white, so that it reads on a dark page too.
func (c *canvas) picture(width, height float64) []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+
		"\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n", width, height, width, height, c.body.String())
}

// scale maps values onto pixels by their logarithm.
type scale struct{ low, high, from, to float64 }

// newScale spans all positive values, from one power of base to another.
func newScale(values []float64, base, from, to float64) scale {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 1, 1
	}
	round := func(v float64, to func(float64) float64) float64 {
		return math.Pow(base, to(math.Log(v)/math.Log(base)))
	}
	s := scale{round(low, math.Floor), round(high, math.Ceil), from, to}
	if s.low == s.high {
		s.high *= base
	}
	return s
}

func (s scale) at(v float64) float64 {
	share := math.Log(v/s.low) / math.Log(s.high/s.low)
	return s.from + (s.to-s.from)*min(max(share, 0), 1)
}

// ticks are the powers of base within the scale.
func (s scale) ticks(base float64) []float64 {
	var all []float64
	for v := s.low; v <= s.high*1.0001; v *= base {
		all = append(all, v)
	}
	return all
}

const (
	gray  = `stroke="#d0d0d0"`
	dark  = `fill="#303030"`
	small = `fill="#606060" font-size="11"`
	bold  = `fill="#202020" font-weight="bold" font-size="14"`
)

// number is v, short, with k, M or G.
func number(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size*0.9999 {
			return fmt.Sprintf("%.3g%s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.3g", v)
}
