package fio

import (
	"fmt"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// Parity is the ratio of a load that takes as long as computing: ratios are
// counted in millionths.
const Parity = 1_000_000

// LoadRatio is the time of a load over that of computing the same tokens, in
// millionths. computeNS is positive.
func LoadRatio(loadNS, computeNS int64) int64 {
	const most = 1 << 50 // of a ratio: a load of years
	return int64(min(float64(max(loadNS, 0))/float64(computeNS)*Parity, most))
}

// LoadVerdict says whether loading whole prefixes is quicker than computing them.
type LoadVerdict struct {
	Judgement Judgement
	Loads     uint64
	Faster    uint64 // loads that took less time than computing
	// P99 is the P99 of load time over compute time; 0 without loads. Low and High
	// bound the true one with a confidence of 95 %; 0 when there is no such interval.
	P99, Low, High float64
	Reason         string // one sentence for people
}

// JudgeLoads is the gate of whole prefixes, load or recompute: what Judge says of
// the LoadRatios against Parity. Pass says that 99 of 100 loads beat computing. A
// histogram tells ratios apart to a 64th.
func JudgeLoads(ratios histogram.Snapshot, faster uint64) LoadVerdict {
	g := Judge(ratios, Parity)
	v := LoadVerdict{Judgement: g.Judgement, Loads: g.Samples, Faster: faster, P99: ratioOf(g.P99NS), Low: ratioOf(g.LowNS), High: ratioOf(g.HighNS)}
	if g.Samples < SamplesMin {
		v.Reason = fmt.Sprintf("%d loads of prefixes are too few to judge; at least %d are needed", v.Loads, SamplesMin)
		return v
	}
	interval := fmt.Sprintf("the 95 %% interval of the P99 of load time over compute time, %.3g to %.3g,", v.Low, v.High)
	switch v.Judgement {
	case Pass:
		v.Reason = interval + " lies under 1"
	case Over:
		v.Reason = interval + " lies over 1"
	default:
		v.Reason = interval + " contains 1; more loads narrow it"
	}
	return v
}

func ratioOf(millionths int64) float64 { return float64(millionths) / Parity }
