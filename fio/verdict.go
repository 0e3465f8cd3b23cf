package fio

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// Judgement is the outcome of a verdict.
type Judgement uint8

const (
	// CannotJudge: too few samples, or the budget lies within the interval.
	CannotJudge Judgement = iota
	// Pass: the whole interval of P99 lies under the budget.
	Pass
	// Over: the whole interval of P99 lies over the budget.
	Over
)

var judgementNames = [...]string{"cannot judge", "pass", "over budget"}

func (j Judgement) String() string { return judgementNames[j] }

const (
	gatePercentile = 99
	// Confidence is that of the interval of P99.
	Confidence = 0.95
	// SamplesMin is the fewest samples with a verdict: with one less, the
	// highest of them lies above P99 with a probability under 95 %.
	SamplesMin = 299
)

// Verdict says whether P99 of a set of reads stays under a budget.
type Verdict struct {
	Judgement Judgement
	BudgetNS  int64
	P99NS     int64 // of the samples; 0 without any
	// LowNS and HighNS bound the true P99 with a confidence of 95 %, by order
	// statistics; 0 when there is no such interval.
	LowNS, HighNS int64
	Samples       uint64
	MarginNS      int64  // BudgetNS - P99NS: negative over the budget
	Reason        string // one sentence for people
}

// Judge compares the P99 of the latencies, in nanoseconds, with a budget.
func Judge(latencies histogram.Snapshot, budgetNS int64) Verdict {
	v := Verdict{BudgetNS: budgetNS, Samples: latencies.Count}
	if v.Samples > 0 {
		v.P99NS = latencies.PercentileNS(gatePercentile)
		v.MarginNS = budgetNS - v.P99NS
	}
	low, high, ok := latencies.IntervalNS(gatePercentile, Confidence)
	if v.Samples < SamplesMin || !ok {
		v.Reason = fmt.Sprintf("%d samples are too few to judge P99; at least %d are needed", v.Samples, SamplesMin)
		return v
	}
	v.LowNS, v.HighNS = low, high
	interval := fmt.Sprintf("the 95 %% interval of P99, %s to %s,", FormatNS(low), FormatNS(high))
	switch {
	case high < budgetNS:
		v.Judgement = Pass
		v.Reason = fmt.Sprintf("%s lies under %s", interval, FormatNS(budgetNS))
	case low > budgetNS:
		v.Judgement = Over
		v.Reason = fmt.Sprintf("%s lies over %s", interval, FormatNS(budgetNS))
	default:
		v.Reason = fmt.Sprintf("%s contains %s; more samples narrow it", interval, FormatNS(budgetNS))
	}
	return v
}

// FormatNS writes a time of nanoseconds with at least three digits, and with
// no more than two after the point.
func FormatNS(ns int64) string {
	d := time.Duration(ns)
	for unit := time.Second; unit >= time.Microsecond; unit /= 1000 {
		if d.Abs() >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
