package result

import "math/bits"

// The classes of fio's distributions.
var (
	// depthLabels: "8" counts depths 8..15.
	depthLabels = [...]string{"1", "2", "4", "8", "16", "32", ">=64"}
	// batchLabels: "8" counts batches of 5..8.
	batchLabels = [...]string{"0", "4", "8", "16", "32", "64", ">=64"}
	// Latencies in units of nanoseconds, microseconds and milliseconds: "10"
	// counts 4 to less than 10 of the unit, "1000" 750 to less than 1000.
	unitLabels   = [...]string{"2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"}
	unitLimits   = [...]int64{2, 4, 10, 20, 50, 100, 250, 500, 750, 1000}
	secondLabels = [...]string{"2000", ">=2000"} // more classes of milliseconds
)

const rangeCount = 3*len(unitLabels) + len(secondLabels)

func depthIndex(depth int) int {
	return min(max(bits.Len(uint(max(depth, 1)))-1, 0), len(depthLabels)-1)
}

func batchIndex(n int) int {
	if n <= 0 {
		return 0
	}
	return min(max(bits.Len(uint(n-1))-1, 1), len(batchLabels)-1)
}

// rangeIndex is the class of a latency: first those below a microsecond, then
// those below a millisecond, then the rest.
func rangeIndex(latencyNS int64) int {
	unit, v := 0, max(latencyNS, 0)
	for unit < 2 && v >= 1000 {
		v /= 1000
		unit++
	}
	for i, limit := range unitLimits {
		if v < limit {
			return unit*len(unitLabels) + i
		}
	}
	if v < 2000 {
		return rangeCount - 2
	}
	return rangeCount - 1
}
