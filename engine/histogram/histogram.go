// Package histogram counts latencies in fio's buckets, so that results can be
// compared and merged with fio's own.
//
// There are 64 buckets to every power of two: bucket numbers follow the value
// itself up to 127 ns and its seven highest bits above, so a bucket's midpoint is
// off by less than 0.8 %. 45 groups of 64 buckets reach to 2^50 ns, 13 days (fio
// itself stops at 17 s).
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
)

const (
	groupBits   = 6 // 64 buckets a group
	groupCount  = 45
	bucketCount = groupCount << groupBits
	// latencyMaxNS is the largest latency told apart: the end of the last bucket.
	latencyMaxNS = 1<<(groupCount+groupBits-1) - 1
)

// Histogram counts latencies. The zero value is empty and ready. All methods
// may be called from many goroutines; none of them waits. It has a fixed size
// of 23 KB and must not be copied.
type Histogram struct {
	buckets [bucketCount]atomic.Uint64
	sumNS   atomic.Uint64
	// sumSquares holds the bits of a float64: squares of nanoseconds overflow
	// 64-bit integers after a few seconds.
	sumSquares atomic.Uint64
	maxNS      atomic.Int64
	// minInverse is latencyMaxNS minus the minimum, so that zero fits an empty
	// histogram.
	minInverse atomic.Int64
}

// Record counts one latency. A negative one counts as 0, one of more than 13
// days as 13 days.
func (h *Histogram) Record(latencyNS int64) {
	v := min(max(latencyNS, 0), latencyMaxNS)
	h.addSums(uint64(v), float64(v)*float64(v), v, v)
	h.buckets[indexOf(v)].Add(1)
}

// Merge adds what other has counted. other is not changed.
func (h *Histogram) Merge(other *Histogram) {
	s := other.Snapshot()
	if s.Count == 0 {
		return
	}
	h.addSums(other.sumNS.Load(), math.Float64frombits(other.sumSquares.Load()), s.MinNS, s.MaxNS)
	for i, n := range s.counts {
		if n > 0 {
			h.buckets[i].Add(n)
		}
	}
}

// addSums comes before the buckets are raised, and Snapshot reads them in the
// other order, so that a latency seen in a bucket lies within the minimum and
// maximum seen.
func (h *Histogram) addSums(sumNS uint64, squares float64, minNS, maxNS int64) {
	h.sumNS.Add(sumNS)
	for {
		old := h.sumSquares.Load()
		sum := math.Float64frombits(old) + squares
		if h.sumSquares.CompareAndSwap(old, math.Float64bits(sum)) {
			break
		}
	}
	raise(&h.maxNS, maxNS)
	raise(&h.minInverse, latencyMaxNS-minNS)
}

// Snapshot copies the counts. Latencies recorded meanwhile may be in some of the
// numbers and not in others, but each counted one lies within MinNS..MaxNS; once
// recording has ended all numbers agree.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{counts: make([]uint64, bucketCount)}
	for i := range h.buckets {
		n := h.buckets[i].Load()
		s.counts[i] = n
		s.Count += n
	}
	if s.Count == 0 {
		return s
	}
	n := float64(s.Count)
	s.MaxNS = h.maxNS.Load()
	s.MinNS = latencyMaxNS - h.minInverse.Load()
	s.MeanNS = float64(h.sumNS.Load()) / n
	if s.Count > 1 && s.MinNS < s.MaxNS {
		squares := math.Float64frombits(h.sumSquares.Load())
		s.StddevNS = math.Sqrt(max(squares-n*s.MeanNS*s.MeanNS, 0) / (n - 1))
	}
	return s
}

// indexOf is the bucket of a latency in 0..latencyMaxNS.
func indexOf(v int64) int {
	msb := bits.Len64(uint64(v)) - 1
	if msb <= groupBits {
		return int(v)
	}
	shift := msb - groupBits
	return (shift+1)<<groupBits + int(v>>shift)&(1<<groupBits-1)
}

// boundsOf are the least and the greatest latency of a bucket.
func boundsOf(index int) (low, high int64) {
	if index < 2<<groupBits {
		return int64(index), int64(index)
	}
	shift := index>>groupBits - 1
	low = (1<<groupBits + int64(index&(1<<groupBits-1))) << shift
	return low, low + 1<<shift - 1
}

// midpointOf is the latency that stands for a bucket.
func midpointOf(index int) int64 {
	low, high := boundsOf(index)
	return low + (high-low+1)/2
}

func raise(peak *atomic.Int64, v int64) {
	for {
		old := peak.Load()
		if v <= old || peak.CompareAndSwap(old, v) {
			return
		}
	}
}
