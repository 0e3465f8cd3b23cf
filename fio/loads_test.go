package fio

import (
	"math"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// TestJudgeLoads: of n loads so many take twice as long as computing, the others half.
func TestJudgeLoads(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, slow int
		want    Judgement
		say     string
	}{
		{"none", 0, 0, CannotJudge, "0 loads of prefixes are too few"},
		{"298 slow", 298, 298, CannotJudge, "at least 299"},
		{"299 fast", 299, 0, Pass, "lies under 1"},
		{"299, one slow", 299, 1, CannotJudge, "contains 1"},
		{"one percent slow", 10_000, 100, CannotJudge, "contains 1"},
		{"two percent slow", 10_000, 200, Over, "lies over 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h histogram.Histogram
			for i := range c.n {
				load := int64(500_000)
				if i < c.slow {
					load = 2_000_000
				}
				h.Record(LoadRatio(load, 1_000_000))
			}
			v := JudgeLoads(h.Snapshot(), uint64(c.n-c.slow))
			if v.Judgement != c.want || !strings.Contains(v.Reason, c.say) {
				t.Errorf("%v: %s; want %v with %q", v.Judgement, v.Reason, c.want, c.say)
			}
			if v.Loads != uint64(c.n) || v.Faster != uint64(c.n-c.slow) || c.n >= SamplesMin && !(v.Low <= v.P99 && v.P99 <= v.High) {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestLoadRatio(t *testing.T) {
	for _, c := range [][3]int64{{0, 1, 0}, {-5, 1, 0}, {1, 2, Parity / 2}, {3, 1, 3 * Parity}, {math.MaxInt64, 1, 1 << 50}} {
		if got := LoadRatio(c[0], c[1]); got != c[2] {
			t.Errorf("LoadRatio(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
