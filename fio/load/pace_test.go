package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"pgregory.net/rapid"
)

func rated(t rapid.TB, j *job.Job, seed uint64) *Rated {
	t.Helper()
	return NewRated(newPattern(t, j, 1<<30, Endless, seed), j, 1, seed)
}

// Constant gaps, of operations or bytes.
func TestConstantRate(t *testing.T) {
	j := plain(true, 100, 4*kib)
	j.RateIOPS[Read] = 3
	var at []int64
	for _, op := range ops(t, rated(t, j, 1), 4) {
		at = append(at, op.IntendedNS)
	}
	if want := []int64{0, 333_333_333, 666_666_666, 1_000_000_000}; !slices.Equal(at, want) {
		t.Errorf("3 a second start at %d", at)
	}
	j = plain(true, 0, 4*kib)
	j.Blocks[Write].MaxBytes = 64 * kib
	j.RateBytes[Write] = 1 << 20
	bytes := int64(0)
	for _, op := range ops(t, rated(t, j, 1), 1000) {
		if want := bytes * 1_000_000_000 >> 20; op.IntendedNS != want {
			t.Fatalf("after %d bytes at 1 MiB/s an op starts at %d ns, not at %d", bytes, op.IntendedNS, want)
		}
		bytes += int64(op.Bytes)
	}
}

// A rate does not drift, however long it runs.
func TestRateFarOn(t *testing.T) {
	a := perSecond(1e6, false, 0, 0)
	a.count = 86_400 * 1e6
	if due := a.dueNS(); due != 86_400*secondNS {
		t.Errorf("after a day at 1,000,000 a second: %d ns", due)
	}
	a = bytesPerSecond(10<<30, 4096, false, 0, 0)
	a.count = 86_400 * 10 << 30
	if due := a.dueNS(); due != 86_400*secondNS {
		t.Errorf("after a day at 10 GiB/s: %d ns", due)
	}
}

// Poisson gaps have the mean and the deviation of the exponential distribution,
// and are not correlated.
func TestPoisson(t *testing.T) {
	j := plain(true, 100, 4*kib)
	j.RateIOPS[Read], j.Poisson = 1000, true
	const n = 100_000
	var gaps []float64
	last := int64(0)
	for _, op := range ops(t, rated(t, j, 7), n) {
		gaps = append(gaps, float64(op.IntendedNS-last))
		last = op.IntendedNS
	}
	mean, square, product := 0.0, 0.0, 0.0
	for i, g := range gaps {
		mean += g / n
		square += g * g / n
		product += g * gaps[max(i, 1)-1] / n
	}
	deviation := math.Sqrt(square - mean*mean)
	// Five standard errors of the mean and of the deviation are 1.6 % and 2.3 %.
	if math.Abs(mean-1e6) > .016e6 || math.Abs(deviation-1e6) > .03e6 {
		t.Errorf("gaps have a mean of %.0f ns and a deviation of %.0f, not 1,000,000", mean, deviation)
	}
	if r := (product - mean*mean) / (deviation * deviation); math.Abs(r) > .02 {
		t.Errorf("neighbouring gaps have a correlation of %.3f", r)
	}
}

// Intended starts do not depend on when the worker asks: no coordinated omission.
func TestIntendedStartsAreFixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := plain(true, 50, 4*kib)
		j.Poisson = rapid.Bool().Draw(t, "poisson")
		j.RateIOPS = [2]int64{rapid.Int64Range(1, 1e6).Draw(t, "reads"), rapid.Int64Range(1, 1e6).Draw(t, "writes")}
		seed := rapid.Uint64().Draw(t, "seed")
		starts := func(nowNS func(i int) int64) (at [2][]int64) {
			s := rated(t, j, seed)
			for i := range 200 {
				var op Op
				s.Next(nowNS(i), &op)
				at[op.Kind] = append(at[op.Kind], op.IntendedNS)
			}
			return at
		}
		prompt := starts(func(int) int64 { return 0 })
		stalled := starts(func(i int) int64 { return int64(i/50) * 1e9 })
		for kind := range prompt {
			n := min(len(prompt[kind]), len(stalled[kind]))
			if !slices.Equal(prompt[kind][:n], stalled[kind][:n]) || !slices.IsSorted(prompt[kind]) {
				t.Fatalf("starts of kind %d: %v asked early, %v asked late", kind, prompt[kind][:n], stalled[kind][:n])
			}
		}
	})
}

// Both directions keep their rates, whatever the mix says.
func TestRatesOfBothDirections(t *testing.T) {
	j := plain(true, 90, 4*kib)
	j.RateIOPS = [2]int64{1000, 250}
	p := player{depth: 4, latencyNS: always(1000), untilNS: 10 * secondNS}
	var count [2]int
	for _, op := range p.play(t, rated(t, j, 3)) {
		count[op.Kind]++
		if op.beganNS != op.IntendedNS {
			t.Fatalf("%+v began late on a fast target", op)
		}
	}
	if count[Read] < 9_990 || count[Read] > 10_010 || count[Write] < 2_490 || count[Write] > 2_510 {
		t.Errorf("%d reads and %d writes in ten seconds", count[Read], count[Write])
	}
}

// A direction without a rate stays closed beside one that has one.
func TestOneDirectionRated(t *testing.T) {
	j := plain(true, 50, 4*kib)
	j.RateIOPS = [2]int64{100, 0}
	p := player{depth: 1, latencyNS: always(1e6), untilNS: secondNS}
	var count [2]int
	for _, op := range p.play(t, rated(t, j, 3)) {
		count[op.Kind]++
		if (op.IntendedNS == AtOnce) != (op.Kind == Write) {
			t.Fatalf("%+v", op)
		}
	}
	if count[Read] < 99 || count[Read] > 101 || count[Write] < 890 {
		t.Errorf("%d reads, %d writes", count[Read], count[Write])
	}
}

// After ThinkBlocks ops all end, then nothing begins for ThinkTime.
func TestThink(t *testing.T) {
	j := plain(true, 100, 4*kib)
	j.ThinkTime, j.ThinkBlocks = time.Microsecond, 5
	p := player{depth: 3, latencyNS: func(op *Op) int64 { return 100 + int64(op.Block%7) }, opsMax: 50}
	done := p.play(t, NewThink(newPattern(t, j, 1<<20, Endless, 1), j))
	slices.SortStableFunc(done, func(a, b played) int { return int(a.beganNS - b.beganNS) })
	for from := 5; from < len(done); from += 5 {
		ended := int64(0)
		for _, op := range done[from-5 : from] {
			ended = max(ended, op.endNS)
		}
		if began := done[from].beganNS; began != ended+1000 {
			t.Errorf("op %d began at %d ns; the ones before had ended at %d", from, began, ended)
		}
	}
}

// Closed sources share by weight.
func TestMixShares(t *testing.T) {
	weights := []float64{1, 2, 5}
	var sources []Source
	for i := range weights {
		sources = append(sources, newPattern(t, plain(true, 100, 4*kib), 1<<30, Endless, uint64(i)))
	}
	const n = 16_000
	count := make([]float64, len(weights))
	for _, op := range ops(t, NewMix(sources, weights, 1), n) {
		count[op.Namespace]++
	}
	for i, w := range weights {
		// Five standard deviations are 2 % of n.
		if share := count[i] / n; math.Abs(share-w/8) > .02 {
			t.Errorf("namespace %d has a share of %.3f, not %.3f", i, share, w/8)
		}
	}
}

// Rated sources keep their starts in a mix, in order, beside a closed one.
func TestMixOfRates(t *testing.T) {
	slow, fast := plain(true, 100, 4*kib), plain(true, 0, 4*kib)
	slow.RateIOPS[Read], fast.RateIOPS[Write] = 100, 300
	m := NewMix([]Source{rated(t, slow, 1), rated(t, fast, 2)}, []float64{1, 1}, 3)
	p := player{depth: 2, latencyNS: always(1000), untilNS: secondNS}
	var count [2]int
	last := int64(0)
	for _, op := range p.play(t, m) {
		count[op.Namespace]++
		if op.beganNS != op.IntendedNS || op.IntendedNS < last {
			t.Fatalf("%+v began late or out of order", op)
		}
		last = op.IntendedNS
	}
	if count != [2]int{100, 300} {
		t.Errorf("%v ops in a second", count)
	}
}

// A mix ends when all its sources have, and each op goes back to its own.
func TestMixEnds(t *testing.T) {
	j := plain(true, 100, 4*kib)
	j.Namespaces, j.ThinkTime, j.ThinkBlocks = 3, time.Millisecond, 2
	w, err := New(j, Config{SpaceBytes: 1 << 20, TotalBytes: 99 * 4 * kib})
	if err != nil {
		t.Fatal(err)
	}
	p := player{depth: 8, latencyNS: always(1000)}
	var count [3]int
	for _, op := range p.play(t, w) {
		count[op.Namespace]++
	}
	if count != [3]int{33, 33, 33} {
		t.Errorf("%v ops of namespaces", count)
	}
}
