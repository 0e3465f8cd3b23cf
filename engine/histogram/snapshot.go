package histogram

import (
	"fmt"
	"math"
	"math/big"
)

// Snapshot is the state of a Histogram at one time. It does not change and may
// be shared. All numbers are 0 if nothing was counted.
type Snapshot struct {
	Count        uint64
	MinNS, MaxNS int64   // exact
	MeanNS       float64 // exact
	StddevNS     float64 // of the sample (n-1), as fio prints it
	counts       []uint64
}

// Bin is one non-empty bucket: its midpoint, which is fio's key for it in JSON+,
// and how many latencies fell into it.
type Bin struct {
	MidpointNS int64
	Count      uint64
}

// Bins returns the non-empty buckets in ascending order.
func (s Snapshot) Bins() []Bin {
	var bins []Bin
	for i, n := range s.counts {
		if n > 0 {
			bins = append(bins, Bin{MidpointNS: midpointOf(i), Count: n})
		}
	}
	return bins
}

// PercentileNS is the latency that p percent (0..100) of the counted ones do not
// exceed, by nearest rank: the midpoint of the first bucket at which the running
// count reaches p/100 of all, but never outside MinNS..MaxNS (which a midpoint
// can be, and fio then prints). 0 if nothing was counted.
func (s Snapshot) PercentileNS(p float64) int64 {
	checkPercent(p)
	if s.Count == 0 {
		return 0
	}
	return s.clamp(midpointOf(s.bucketOfRank(rankOf(p, s.Count))))
}

// FioPercentileNS is what fio prints for the same samples: the midpoint of the
// bucket even where it lies outside MinNS..MaxNS, and the rank as it comes out of
// C's long double of 64 bits, where 99.9 % of 1000 is a little over 999.
func (s Snapshot) FioPercentileNS(p float64) int64 {
	checkPercent(p)
	if s.Count == 0 {
		return 0
	}
	long := func(v float64) *big.Float { return new(big.Float).SetPrec(64).SetFloat64(v) }
	exact := long(p)
	exact.Quo(exact, long(100)).Mul(exact, new(big.Float).SetPrec(64).SetUint64(s.Count))
	rank, _ := exact.Uint64()
	if !exact.IsInt() {
		rank++
	}
	return midpointOf(s.bucketOfRank(min(max(rank, 1), s.Count)))
}

// IntervalNS is the confidence interval of a percentile by order statistics: it
// holds the true p-th percentile of what was sampled with at least the given
// probability (0.95, say), whatever the distribution, if the latencies are
// independent. The ranks come from the exact binomial distribution. Each end
// may miss with half of what is left; where the sample is too small for that on
// the upper side, the largest latency is the upper end and the lower one gets
// what it leaves.
//
// ok is false if not even the largest latency is an upper end: for P99 at 95 %
// with fewer than 299 latencies. lowNS is 0 where the sample has no lower end.
// The ends are the outer bounds of their buckets, within MinNS..MaxNS, so
// rounding to buckets never narrows the interval.
func (s Snapshot) IntervalNS(p, confidence float64) (lowNS, highNS int64, ok bool) {
	checkPercent(p)
	if !(confidence > 0 && confidence < 1) {
		panic(fmt.Sprintf("histogram: confidence %v, want between 0 and 1", confidence))
	}
	low, high, ok := intervalRanks(s.Count, p/100, 1-confidence)
	if !ok {
		return 0, 0, false
	}
	if low > 0 {
		lowNS, _ = boundsOf(s.bucketOfRank(low))
		lowNS = s.clamp(lowNS)
	}
	_, highNS = boundsOf(s.bucketOfRank(high))
	return lowNS, s.clamp(highNS), true
}

// bucketOfRank finds the bucket of the rank-th smallest latency, rank 1..Count.
func (s Snapshot) bucketOfRank(rank uint64) int {
	running := uint64(0)
	for i, n := range s.counts {
		if running += n; running >= rank {
			return i
		}
	}
	panic(fmt.Sprintf("histogram: rank %d of %d", rank, s.Count))
}

func (s Snapshot) clamp(v int64) int64 { return min(max(v, s.MinNS), s.MaxNS) }

// rankOf is p percent of n, rounded up, at least 1. What rounding of p itself
// adds (99.9 is not a binary fraction) does not push it over a whole number.
func rankOf(p float64, n uint64) uint64 {
	exact := p / 100 * float64(n)
	rank := math.Ceil(exact)
	if whole := math.Round(exact); math.Abs(exact-whole) < 1e-12*exact {
		rank = whole
	}
	return min(max(uint64(rank), 1), n)
}

func checkPercent(p float64) {
	if !(p >= 0 && p <= 100) {
		panic(fmt.Sprintf("histogram: percentile %v, want 0..100", p))
	}
}
