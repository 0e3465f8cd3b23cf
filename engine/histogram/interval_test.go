package histogram

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// The gate cannot judge a P99 with fewer than 299 samples: 0.99^298 > 0.05.
func TestP99NeedsExactly299(t *testing.T) {
	var h Histogram
	for n := 1; n <= 1000; n++ {
		h.Record(int64(1000 + n))
		low, high, ok := h.Snapshot().IntervalNS(99, 0.95)
		if ok != (n >= 299) {
			t.Fatalf("ok is %v with %d latencies", ok, n)
		}
		if ok && (low <= 1000 || low > high || high > int64(1000+n)) {
			t.Fatalf("interval %d..%d with %d latencies", low, high, n)
		}
	}
}

// exactBelow is P(K <= k) for k = 0..n, K binomial(n, percent/100), in fractions.
func exactBelow(n int64, percent int64) []*big.Rat {
	q, rest := big.NewRat(percent, 100), big.NewRat(100-percent, 100)
	pow := func(x *big.Rat, e int64) *big.Rat {
		num := new(big.Int).Exp(x.Num(), big.NewInt(e), nil)
		return new(big.Rat).SetFrac(num, new(big.Int).Exp(x.Denom(), big.NewInt(e), nil))
	}
	sum, below := new(big.Rat), make([]*big.Rat, n+1)
	for k := range n + 1 {
		term := new(big.Rat).SetInt(new(big.Int).Binomial(n, k))
		term.Mul(term, pow(q, k)).Mul(term, pow(rest, n-k))
		sum = new(big.Rat).Add(sum, term)
		below[k] = sum
	}
	return below
}

// TestRanksAgainstFractions wants of every interval: it covers with at least the
// confidence, neither end could move inwards within its share, and it exists
// whenever one covers at all.
func TestRanksAgainstFractions(t *testing.T) {
	for _, percent := range []int64{1, 10, 50, 90, 95, 99} {
		for _, n := range []int64{1, 2, 5, 6, 10, 29, 30, 36, 37, 58, 59, 73, 100, 298, 299, 367, 368} {
			below := exactBelow(n, percent)
			for _, confidencePercent := range []int64{50, 90, 95, 99} {
				checkRanks(t, below, n, percent, confidencePercent)
			}
		}
	}
}

func checkRanks(t *testing.T, below []*big.Rat, n, percent, confidencePercent int64) {
	t.Helper()
	one := big.NewRat(1, 1)
	alpha := big.NewRat(100-confidencePercent, 100)
	half := new(big.Rat).Mul(alpha, big.NewRat(1, 2))
	lower := func(rank int64) *big.Rat { // P(K < rank)
		if rank <= 0 {
			return new(big.Rat)
		}
		return below[rank-1]
	}
	upper := func(rank int64) *big.Rat { return new(big.Rat).Sub(one, lower(rank)) } // P(K >= rank)

	lowRank, highRank, ok := intervalRanks(uint64(n), float64(percent)/100, 1-float64(confidencePercent)/100)
	low, high := int64(lowRank), int64(highRank)
	if possible := upper(n).Cmp(alpha) <= 0; ok != possible {
		t.Errorf("P%d of %d at %d%%: ok is %v", percent, n, confidencePercent, ok)
		return
	} else if !ok {
		return
	}
	fail := func(why string) {
		t.Errorf("P%d of %d at %d%%: ranks %d..%d: %s", percent, n, confidencePercent, low, high, why)
	}
	if low >= high || high > n {
		fail("not an interval")
		return
	}
	missed := new(big.Rat).Add(lower(low), upper(high))
	if missed.Cmp(alpha) > 0 {
		fail("misses too often")
	}
	lowerShare := half
	if upper(high).Cmp(half) > 0 {
		if high != n {
			fail("the upper end takes more than half, but is not the last")
		}
		lowerShare = new(big.Rat).Sub(alpha, upper(n))
	} else if upper(high-1).Cmp(half) <= 0 {
		fail("the upper end could be lower")
	}
	if lower(low+1).Cmp(lowerShare) <= 0 {
		fail("the lower end could be higher")
	}
}

// TestRanksOfManySamples checks large n, where the weights are cut off, against
// the normal approximation, which is close there.
func TestRanksOfManySamples(t *testing.T) {
	const z = 1.959964
	for _, c := range []struct {
		n uint64
		// sd is sqrt(n × 0.99 × 0.01)
		sd float64
	}{{1_000_000, 99.4987}, {100_000_000, 994.987}, {10_000_000_000, 9949.87}} {
		low, high, ok := intervalRanks(c.n, 0.99, 1-0.95)
		mean := float64(c.n) * 0.99
		if off := float64(low) - (mean - z*c.sd); !ok || off < -3 || off > 3 {
			t.Errorf("%d samples: lower rank %d, %.1f off", c.n, low, off)
		}
		if off := float64(high) - (mean + z*c.sd); off < -3 || off > 3 {
			t.Errorf("%d samples: upper rank %d, %.1f off", c.n, high, off)
		}
	}
}

// TestIntervalCoversTheTruth draws samples whose true P90 is known. 95 % of 400
// is 380; the seed is fixed, and fewer than 366 has a chance below 0.001.
func TestIntervalCoversTheTruth(t *testing.T) {
	const rounds, n, truth = 400, 500, 900_000
	rnd := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range rounds {
		var h Histogram
		all := make([]int64, n)
		for i := range all {
			all[i] = rnd.Int64N(1_000_000)
			h.Record(all[i])
		}
		s := h.Snapshot()
		low, high, ok := s.IntervalNS(90, 0.95)
		if !ok {
			t.Fatal("no interval")
		}
		if p := s.PercentileNS(90); p < low || p > high {
			t.Fatalf("P90 %d outside its interval %d..%d", p, low, high)
		}
		slices.Sort(all)
		lowRank, highRank, _ := intervalRanks(n, 0.9, 1-0.95)
		if low > all[lowRank-1] || high < all[highRank-1] {
			t.Fatalf("interval %d..%d is narrower than %d..%d", low, high, all[lowRank-1], all[highRank-1])
		}
		if low <= truth && truth <= high {
			covered++
		}
	}
	if covered < 366 {
		t.Fatalf("the truth lay in %d of %d intervals", covered, rounds)
	}
}

func TestSmallSampleOfLowPercentileHasNoLowerEnd(t *testing.T) {
	var h Histogram
	for i := range 10 {
		h.Record(int64(1000 + i))
	}
	low, high, ok := h.Snapshot().IntervalNS(1, 0.95)
	if !ok || low != 0 || high < 1001 {
		t.Fatalf("interval %d..%d %v, want it to start at 0", low, high, ok)
	}
	if _, _, ok := h.Snapshot().IntervalNS(100, 0.95); ok {
		t.Fatal("an upper end for P100")
	}
}
