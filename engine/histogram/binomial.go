package histogram

import "math"

// intervalRanks finds the ranks of the two order statistics of n samples that
// enclose the q-quantile (0..1) with probability at least 1-alpha. low 0 means
// that nothing but the bottom of the scale will do; ok is false if no sample is
// high enough.
//
// The number K of samples below the quantile is binomial(n, q). The sample of
// rank low lies above the quantile with P(K < low), the one of rank high below it
// with P(K >= high).
func intervalRanks(n uint64, q, alpha float64) (low, high uint64, ok bool) {
	if n == 0 || q <= 0 || q >= 1 {
		return 0, 0, false
	}
	alpha *= 1 + 1e-12 // 1-0.9 is a little less than 0.1 in binary: a tie is enough
	first, weights, total := binomialWeights(n, q)
	// tailFrom finds the smallest rank with P(K >= rank) <= limit, which is n+1
	// if even K = n is likelier than that.
	tailFrom := func(limit float64) uint64 {
		tail := 0.0
		for i := len(weights) - 1; i >= 0; i-- {
			if tail += weights[i] / total; tail > limit {
				return first + uint64(i) + 1
			}
		}
		return first
	}
	lowerAlpha := alpha / 2
	high = tailFrom(alpha / 2)
	if high > n {
		if high = tailFrom(alpha); high > n {
			return 0, 0, false
		}
		high = n // misses with P(K >= n) = q^n, the last weight
		lowerAlpha = alpha - weights[len(weights)-1]/total
	}
	tail := 0.0
	for i := range weights { // the largest rank with P(K < rank) <= lowerAlpha
		low = first + uint64(i)
		if tail += weights[i] / total; tail > lowerAlpha {
			break
		}
	}
	return low, high, true // low < high, as the tails leave something between
}

// binomialWeights returns numbers in proportion to P(K = first), P(K = first+1)
// and so on, and their sum. They start at 1 for the likeliest K and follow from
// their ratios, so no factorial is ever computed, and they end at 0, at n, or
// where they no longer add anything to a sum.
func binomialWeights(n uint64, q float64) (first uint64, weights []float64, total float64) {
	const negligible = 1e-25
	odds := q / (1 - q)
	mode := min(uint64(float64(n+1)*q), n)
	var below []float64 // from mode-1 down
	for k, w := mode, 1.0; k > 0; k-- {
		w *= float64(k) / (float64(n-k+1) * odds)
		if w < negligible {
			break
		}
		below = append(below, w)
	}
	for i := len(below) - 1; i >= 0; i-- {
		weights = append(weights, below[i])
	}
	weights = append(weights, 1)
	for k, w := mode, 1.0; k < n; k++ {
		w *= float64(n-k) * odds / float64(k+1)
		if w < negligible {
			break
		}
		weights = append(weights, w)
	}
	for _, w := range weights {
		total += w
	}
	if math.IsInf(total, 0) || math.IsNaN(total) {
		panic("histogram: binomial weights out of range")
	}
	return mode - uint64(len(below)), weights, total
}
