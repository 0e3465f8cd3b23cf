package fio

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine/histogram"
)

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30ms": 30 * time.Millisecond, "12ms": 12 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1us": time.Microsecond,
		"250µs": 250 * time.Microsecond, "1h": time.Hour, "1m30s": 90 * time.Second,
		"": 0, "0": 0, "0ms": 0, "30": 0, "-3ms": 0, "999ns": 0, "61m": 0, "3 ms": 0, "ms": 0, "30MS": 0, "fast": 0, "NaNms": 0, "1e3ms": 0,
	} {
		got, err := ParseBudget(text)
		if (want == 0) != (err != nil) || got != want {
			t.Errorf("ParseBudget(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

// filled counts n latencies: slow of them take 20 ms, the others 1 ms.
func filled(n, slow int) histogram.Snapshot {
	var h histogram.Histogram
	for i := range n {
		latency := time.Millisecond
		if i < slow {
			latency = 20 * time.Millisecond
		}
		h.Record(latency.Nanoseconds())
	}
	return h.Snapshot()
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, slow int
		want    Judgement
		say     string
	}{
		{"none", 0, 0, CannotJudge, "0 samples are too few"},
		{"298 fast", 298, 0, CannotJudge, "298 samples are too few to judge P99; at least 299"},
		{"298 slow", 298, 298, CannotJudge, "too few"},
		{"299 fast", 299, 0, Pass, "lies under 10ms"},
		{"299, one slow", 299, 1, CannotJudge, "contains 10ms"},
		{"299 slow", 299, 299, Over, "lies over 10ms"},
		{"half a percent slow", 10_000, 50, Pass, "lies under"},
		{"one percent slow", 10_000, 100, CannotJudge, "contains"},
		{"two percent slow", 10_000, 200, Over, "lies over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(filled(c.n, c.slow), (10 * time.Millisecond).Nanoseconds())
			if v.Judgement != c.want || !strings.Contains(v.Reason, c.say) {
				t.Errorf("%v: %s; want %v with %q", v.Judgement, v.Reason, c.want, c.say)
			}
			if v.Samples != uint64(c.n) || c.n > 0 && v.MarginNS != v.BudgetNS-v.P99NS {
				t.Errorf("verdict %+v", v)
			}
			if c.n >= SamplesMin && !(v.LowNS <= v.P99NS && v.P99NS <= v.HighNS) {
				t.Errorf("P99 %d lies outside %d..%d", v.P99NS, v.LowNS, v.HighNS)
			}
		})
	}
}

// TestJudgeAtTheEdge: a budget that an end of the interval touches is neither
// over nor under it.
func TestJudgeAtTheEdge(t *testing.T) {
	s := filled(1000, 1000)
	low, high, ok := s.IntervalNS(99, Confidence)
	if !ok {
		t.Fatal("no interval")
	}
	for budget, want := range map[int64]Judgement{low - 1: Over, low: CannotJudge, high: CannotJudge, high + 1: Pass} {
		if v := Judge(s, budget); v.Judgement != want {
			t.Errorf("budget %d against %d..%d: %v, want %v", budget, low, high, v.Judgement, want)
		}
	}
}

func TestFormatNS(t *testing.T) {
	for ns, want := range map[int64]string{0: "0s", 999: "999ns", 79_234: "79.23µs", 3_850_249: "3.85ms", 26_149_800: "26.15ms",
		-26_149_800: "-26.15ms", 7_984_812_345: "7.98s", 90_000_000_000: "1m30s"} {
		if got := FormatNS(ns); got != want {
			t.Errorf("FormatNS(%d) = %s, want %s", ns, got, want)
		}
	}
}
