// Package chart draws the two kinds of picture the benchmark needs as SVG:
// ratios with their spread, and lines against depth.
package chart

import (
	"fmt"

	"github.com/spillway-kv/spillway/fio/chart"
)

// picture wraps the elements; white, so that it reads on a dark page too.
func picture(c *chart.Canvas, width, height float64) []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+
		"\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n", width, height, width, height, c.Elements())
}

const (
	gray  = `stroke="#d0d0d0"`
	dark  = `fill="#303030"`
	small = `fill="#606060" font-size="11"`
	bold  = `fill="#202020" font-weight="bold" font-size="14"`
)
