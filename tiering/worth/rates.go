package worth

import (
	"math"
	"math/bits"
	"time"
)

const (
	// halfLife is after what time a measurement counts half.
	halfLife = 10 * time.Second
	// fresh is for how long a rate is believed of which nothing new was measured.
	fresh = 30 * time.Second
	// samplesMin is how many transfers make a measurement, older ones counting less.
	samplesMin = 3
	// Classes are powers of two: of 4 KiB and less to 64 MiB and more, and of 1 to 16,384 blocks.
	sizeClasses  = 15
	depthClasses = 15
	smallestBits = 12
)

// Rates are a drive's measured read rates. Use it under a lock of the caller's; the zero
// value has measured nothing.
//
// A transfer of Q bytes in flight that takes t says that the drive moves Q/t (Little's
// law), of blocks of that size at that depth. Means are exponentially aged.
type Rates struct {
	cells [sizeClasses][depthClasses]cell
}

// cell is what was measured of one class.
type cell struct {
	bytes, seconds, samples float64 // aged to at
	at                      time.Time
}

// Observe counts a transfer of blocks of blockBytes that took so long while inFlight
// bytes, its own included, were under way on average.
func (r *Rates) Observe(now time.Time, blockBytes int, inFlight int64, took time.Duration) {
	if took <= 0 || inFlight <= 0 {
		return
	}
	c := &r.cells[sizeClass(blockBytes)][depthClass(blockBytes, inFlight)]
	c.age(now)
	c.bytes += float64(inFlight)
	c.seconds += took.Seconds()
	c.samples++
}

func (c *cell) age(now time.Time) {
	if !c.at.IsZero() {
		keep := math.Exp2(-now.Sub(c.at).Seconds() / halfLife.Seconds())
		c.bytes, c.seconds, c.samples = c.bytes*keep, c.seconds*keep, c.samples*keep
	}
	c.at = now
}

// perSecond is the cell's rate; 0 if it cannot be believed. What counts are
// the samples as they were when the newest came.
func (c *cell) perSecond(now time.Time) float64 {
	if c.samples < samplesMin-1 || now.Sub(c.at) > fresh { // the earlier ones have aged a little
		return 0
	}
	return c.bytes / c.seconds
}

func sizeClass(blockBytes int) int {
	return min(max(bits.Len(uint(blockBytes-1))-smallestBits, 0), sizeClasses-1)
}

func depthClass(blockBytes int, inFlight int64) int {
	return min(bits.Len64(uint64(max(inFlight/int64(blockBytes), 1)))-1, depthClasses-1)
}

// BytesPerSecond is how fast the drive reads blocks of this size with so many bytes in
// flight. Where just that was not measured lately, it is the rate of the nearest deeper
// queue, or of the nearest larger blocks with as many bytes in flight, which are no slower: what takes too long by
// such a rate takes too long by the true one. 0 if there is none: nothing is known.
func (r *Rates) BytesPerSecond(now time.Time, blockBytes int, inFlight int64) float64 {
	for size := sizeClass(blockBytes); size < sizeClasses; size++ {
		for depth := depthClass(max(blockBytes, 1<<(size+smallestBits)), inFlight); depth < depthClasses; depth++ {
			if rate := r.cells[size][depth].perSecond(now); rate > 0 {
				return rate
			}
		}
	}
	return 0
}

// Rate is one measured class.
type Rate struct {
	BlockBytes     int     `json:"block_bytes"`      // blocks up to this size, and larger than half of it
	Depth          int     `json:"depth"`            // that many blocks in flight, and fewer than twice as many
	BytesPerSecond float64 `json:"bytes_per_second"` // as measured
}

// All are the classes that were measured lately, small blocks and short queues first.
func (r *Rates) All(now time.Time) (all []Rate) {
	for size := range r.cells {
		for depth := range r.cells[size] {
			if rate := r.cells[size][depth].perSecond(now); rate > 0 {
				all = append(all, Rate{1 << (size + smallestBits), 1 << depth, rate})
			}
		}
	}
	return all
}
