package result

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PercentilesMax is the longest list, fio's.
const PercentilesMax = 20

// DefaultPercentiles is fio's default list.
func DefaultPercentiles() []float64 {
	return []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99}
}

// ParsePercentiles reads a percentile_list such as 50:95:99.9 and sorts it. Each
// must lie above 0 and at most at 100.
func ParsePercentiles(text string) ([]float64, error) {
	var list []float64
	for part := range strings.SplitSeq(text, ":") {
		p, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return nil, fmt.Errorf("percentile %q: want a number above 0 and at most 100, as in 50:95:99.9", part)
		}
		list = append(list, p)
	}
	if len(list) > PercentilesMax {
		return nil, fmt.Errorf("%d percentiles: at most %d can be listed", len(list), PercentilesMax)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
