package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// naiveMidpoint follows the definition in floating point: the value itself below
// 128, else 2^msb + (k + 0.5) × 2^(msb-6).
func naiveMidpoint(v int64) float64 {
	if v < 128 {
		return float64(v)
	}
	_, exponent := math.Frexp(float64(v)) // v is a fraction in [0.5, 1) × 2^exponent
	msb := float64(exponent - 1)
	width := math.Exp2(msb - 6)
	k := math.Floor((float64(v) - math.Exp2(msb)) / width)
	return math.Exp2(msb) + (k+0.5)*width
}

func TestBucketsTileTheScale(t *testing.T) {
	next := int64(0)
	for i := range bucketCount {
		low, high := boundsOf(i)
		if low != next || high < low {
			t.Fatalf("bucket %d is %d..%d, want it to start at %d", i, low, high, next)
		}
		next = high + 1
		mid := midpointOf(i)
		for _, v := range []int64{low, mid, high} {
			if indexOf(v) != i {
				t.Fatalf("indexOf(%d) = %d, want %d", v, indexOf(v), i)
			}
			if float64(mid) != naiveMidpoint(v) {
				t.Fatalf("midpoint of %d is %d, want %v", v, mid, naiveMidpoint(v))
			}
			if off := math.Abs(float64(mid-v)) / float64(max(v, 1)); off > 0.0079 {
				t.Fatalf("midpoint %d is off by %.4f from %d", mid, off, v)
			}
		}
	}
	if last := int64(latencyMaxNS); next != 1<<50 || last != next-1 {
		t.Fatalf("the last bucket ends before %d, the largest latency is %d", next, last)
	}
}

func TestOddLatenciesAreClamped(t *testing.T) {
	var h Histogram
	h.Record(-5)
	h.Record(math.MinInt64)
	h.Record(math.MaxInt64)
	s := h.Snapshot()
	if s.Count != 3 || s.MinNS != 0 || s.MaxNS != latencyMaxNS {
		t.Fatalf("%d latencies in %d..%d", s.Count, s.MinNS, s.MaxNS)
	}
	want := []Bin{{0, 2}, {midpointOf(bucketCount - 1), 1}}
	if got := s.Bins(); !slices.Equal(got, want) {
		t.Fatalf("bins %v, want %v", got, want)
	}
}

func TestEmpty(t *testing.T) {
	var h, other Histogram
	h.Merge(&other)
	s := h.Snapshot()
	if s.Count != 0 || s.MinNS != 0 || s.MaxNS != 0 || s.MeanNS != 0 || s.StddevNS != 0 {
		t.Errorf("empty snapshot %+v", s)
	}
	if s.PercentileNS(99) != 0 || len(s.Bins()) != 0 || len((Snapshot{}).Bins()) != 0 {
		t.Errorf("percentile or bins of nothing")
	}
	if _, _, ok := s.IntervalNS(50, 0.95); ok {
		t.Errorf("an interval of nothing")
	}
	other.Record(7)
	h.Merge(&other)
	if s := h.Snapshot(); s.Count != 1 || s.MinNS != 7 || s.MaxNS != 7 || s.MeanNS != 7 || s.StddevNS != 0 {
		t.Errorf("snapshot of one latency %+v", s)
	}
}

// TestAgainstSortedSlice compares everything with the latencies themselves.
func TestAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latency := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 1<<34), rapid.Int64Range(1<<20, 1<<20+1000))
		all := rapid.SliceOfN(latency, 1, 400).Draw(t, "latencies")
		var whole, left, right Histogram
		for i, v := range all {
			whole.Record(v)
			if i%3 == 0 {
				left.Record(v)
			} else {
				right.Record(v)
			}
		}
		left.Merge(&right)
		slices.Sort(all)
		checkSnapshot(t, whole.Snapshot(), all)
		checkSnapshot(t, left.Snapshot(), all)
	})
}

func checkSnapshot(t *rapid.T, s Snapshot, sorted []int64) {
	n := len(sorted)
	if s.Count != uint64(n) || s.MinNS != sorted[0] || s.MaxNS != sorted[n-1] {
		t.Fatalf("%d latencies in %d..%d, want %d in %d..%d", s.Count, s.MinNS, s.MaxNS, n, sorted[0], sorted[n-1])
	}
	sum, squares := 0.0, 0.0
	for _, v := range sorted {
		sum += float64(v)
	}
	mean := sum / float64(n)
	for _, v := range sorted {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	stddev := math.Sqrt(squares / float64(max(n-1, 1)))
	if math.Abs(s.MeanNS-mean) > 1e-9*mean || math.Abs(s.StddevNS-stddev) > 1e-6*stddev+1e-6*mean {
		t.Fatalf("mean %v stddev %v, want %v and %v", s.MeanNS, s.StddevNS, mean, stddev)
	}
	for _, percent := range []int{0, 1, 25, 50, 75, 90, 99, 100} {
		rank := max((percent*n+99)/100, 1)
		want := min(max(midpointOf(indexOf(sorted[rank-1])), s.MinNS), s.MaxNS)
		if got := s.PercentileNS(float64(percent)); got != want {
			t.Fatalf("P%d of %d is %d, want %d", percent, n, got, want)
		}
	}
	counted := uint64(0)
	for _, bin := range s.Bins() {
		counted += bin.Count
	}
	if counted != s.Count {
		t.Fatalf("bins hold %d of %d", counted, s.Count)
	}
}

// 99.9 % of 1000 is rank 999, though 99.9/100*1000 in binary is above 999.
func TestRankOfDecimalPercentiles(t *testing.T) {
	for _, c := range []struct {
		p    float64
		n    uint64
		want uint64
	}{
		{99.9, 1000, 999}, {99.9, 1001, 1000}, {99.99, 10_000, 9999}, {99.95, 2000, 1999},
		{0.1, 1000, 1}, {0.1, 1001, 2}, {50, 1, 1}, {50, 3, 2}, {0, 5, 1}, {100, 5, 5},
		{99.9, 1_000_000_000, 999_000_000}, {7, 100, 7}, {29, 100, 29}, {58, 50, 29},
	} {
		if got := rankOf(c.p, c.n); got != c.want {
			t.Errorf("rank of P%v of %d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
}

func TestNonsensePanics(t *testing.T) {
	var h Histogram
	h.Record(1)
	s := h.Snapshot()
	for _, p := range []float64{-1, 100.1, math.NaN()} {
		mustPanic(t, "percentile", func() { s.PercentileNS(p) })
		mustPanic(t, "interval", func() { s.IntervalNS(p, 0.95) })
	}
	for _, confidence := range []float64{0, 1, 95, math.NaN()} {
		mustPanic(t, "confidence", func() { s.IntervalNS(99, confidence) })
	}
}

func TestConcurrentRecordAndSnapshot(t *testing.T) {
	const writers, each = 4, 5000
	var h, want Histogram
	var wg, reader sync.WaitGroup
	stop := make(chan struct{})
	reader.Go(func() {
		for {
			s := h.Snapshot()
			if p := s.PercentileNS(50); s.Count > 0 && (s.MinNS > s.MaxNS || p < s.MinNS || p > s.MaxNS) {
				t.Errorf("P50 %d outside %d..%d", p, s.MinNS, s.MaxNS)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for w := range writers {
		rnd := rand.New(rand.NewPCG(1, uint64(w)))
		latencies := make([]int64, each)
		for i := range latencies {
			latencies[i] = rnd.Int64N(1 << rnd.IntN(40))
			want.Record(latencies[i])
		}
		wg.Go(func() {
			for _, v := range latencies {
				h.Record(v)
			}
		})
	}
	wg.Wait()
	close(stop)
	reader.Wait()
	got, expect := h.Snapshot(), want.Snapshot()
	if !slices.Equal(got.Bins(), expect.Bins()) || got.MinNS != expect.MinNS || got.MaxNS != expect.MaxNS ||
		got.Count != writers*each || got.MeanNS != expect.MeanNS ||
		math.Abs(got.StddevNS-expect.StddevNS) > 1e-9*expect.StddevNS {
		t.Fatalf("recorded at once %+v, one by one %+v", got, expect)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	v := int64(1)
	for b.Loop() {
		v = (v*6364136223846793005 + 1) & (1<<24 - 1)
		h.Record(v)
	}
}

func BenchmarkRecordParallel(b *testing.B) {
	var h Histogram
	b.RunParallel(func(pb *testing.PB) {
		v := int64(1)
		for pb.Next() {
			v = (v*6364136223846793005 + 1) & (1<<24 - 1)
			h.Record(v)
		}
	})
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}
