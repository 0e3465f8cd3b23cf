package load

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

const secondNS = 1_000_000_000

// arrivals is a schedule of starts at a rate, from time 0 on.
type arrivals struct {
	perSecond      float64 // operations, or bytes if byBytes
	byBytes        bool
	gaps           *rand.Rand // exponential gaps if not nil, else equal ones
	count          uint64     // operations or bytes so far
	poissonNS      float64
	bytesPerSecond uint64
}

// perSecond is a schedule of so many starts a second: equal gaps, or with
// poisson exponential ones.
func perSecond(rate float64, poisson bool, seed, stream uint64) *arrivals {
	a := &arrivals{perSecond: rate}
	if poisson {
		a.gaps = newRand(seed, streamArrival<<8|stream)
		a.poissonNS = a.gap()
	}
	return a
}

// bytesPerSecond is a schedule of so many bytes a second; with poisson, gaps are
// exponential around the time that meanBytes take, as in fio.
func bytesPerSecond(rate, meanBytes int64, poisson bool, seed, stream uint64) *arrivals {
	if poisson {
		return perSecond(float64(rate)/float64(meanBytes), true, seed, stream)
	}
	return &arrivals{byBytes: true, bytesPerSecond: uint64(rate)}
}

func (a *arrivals) gap() float64 { return a.gaps.ExpFloat64() * secondNS / a.perSecond }

// dueNS is when the next operation starts.
func (a *arrivals) dueNS() int64 {
	switch {
	case a.gaps != nil:
		return int64(a.poissonNS)
	case a.byBytes:
		high, low := bits.Mul64(a.count, secondNS)
		if high >= a.bytesPerSecond {
			return math.MaxInt64
		}
		due, _ := bits.Div64(high, low, a.bytesPerSecond)
		return int64(min(due, math.MaxInt64))
	}
	return int64(float64(a.count) * secondNS / a.perSecond)
}

// started tells that the operation due has been handed out.
func (a *arrivals) started(bytes int) {
	switch {
	case a.gaps != nil:
		a.poissonNS += a.gap()
	case a.byBytes:
		a.count += uint64(bytes)
	default:
		a.count++
	}
}
