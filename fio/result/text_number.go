package result

import (
	"math"
	"strconv"
)

// figures is how many characters fio's text spends on a number: digits, and the
// point where there is one.
const figures = 4

var (
	binaryPrefixes  = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	decimalPrefixes = [...]string{"", "k", "M", "G", "T", "P", "E"}
)

// short writes n as fio does: in the smallest unit in which it has at most width
// digits, with as many decimals as still fit.
func short(n uint64, width int, binary bool, unit string) string {
	base, prefixes := uint64(1000), decimalPrefixes
	if binary {
		base, prefixes = 1024, binaryPrefixes
	}
	digits := func() int { return len(strconv.FormatUint(n, 10)) }
	power, rest := 0, uint64(0)
	for digits() > width && power < len(prefixes)-1 {
		n, rest = n/base, n%base
		power++
	}
	decimals := width - digits() - 1 // one for the point
	tail := ""
	switch {
	case power == 0:
	case decimals <= 0:
		if 2*rest >= base {
			n++
		}
	default:
		tail = strconv.FormatFloat(float64(rest)/float64(base), 'f', decimals, 64)
		if tail[0] == '1' { // rounded up to the next whole one
			n++
		}
		tail = tail[1:]
	}
	return strconv.FormatUint(n, 10) + tail + prefixes[power] + unit
}

// sizes writes bytes in binary and in decimal units.
func sizes(bytes uint64, per string) (binary, decimal string) {
	return short(bytes, figures, true, "B"+per), short(bytes, figures, false, "B"+per)
}

// scaleOf picks the unit of a line of latencies: the largest in which they have
// three digits or more. noiseless is true where the deviation counts too.
func scaleOf(minNS, maxNS int64, stddevNS float64) (unit string, divisor int64) {
	switch {
	case minNS > 2_000_000 && maxNS > 99_999_999 && stddevNS > 1e6:
		return "msec", 1_000_000
	case minNS > 2000 && maxNS > 99_999 && stddevNS > 1e3:
		return "usec", 1000
	}
	return "nsec", 1
}

// anyDeviation lets scaleOf go by the extremes alone.
const anyDeviation = math.MaxFloat64
