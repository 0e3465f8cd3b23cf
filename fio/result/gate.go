package result

import "github.com/spillway-kv/spillway/fio"

// NotJudged is the verdict on block reads of requests of an engine, which are judged
// as whole prefixes.
const NotJudged = "not judged"

// Gate is a verdict in the document. Numbers nobody could compute are null.
type Gate struct {
	Verdict    string  `json:"verdict"` // "pass", "over budget", "cannot judge" or NotJudged
	Reason     string  `json:"reason"`
	BudgetNS   int64   `json:"budget_ns"`
	BudgetFrom string  `json:"budget_from"` // where the budget comes from, in words
	P99NS      *int64  `json:"p99_ns"`
	LowNS      *int64  `json:"p99_low_ns"` // ends of the interval of P99
	HighNS     *int64  `json:"p99_high_ns"`
	MarginNS   *int64  `json:"margin_ns"` // budget - P99
	Confidence Decimal `json:"confidence"`
	Samples    int64   `json:"samples"`
}

// GateOf is the document's form of a verdict; from says in words where its budget
// comes from.
func GateOf(v fio.Verdict, from string) *Gate {
	g := &Gate{Verdict: v.Judgement.String(), Reason: v.Reason, BudgetNS: v.BudgetNS, BudgetFrom: from,
		Confidence: fio.Confidence, Samples: int64(v.Samples)}
	if v.Samples > 0 {
		g.P99NS, g.MarginNS = &v.P99NS, &v.MarginNS
	}
	if v.HighNS > 0 {
		g.LowNS, g.HighNS = &v.LowNS, &v.HighNS
	}
	return g
}

// LoadGate is the verdict on loads of whole prefixes in the document: load or recompute.
type LoadGate struct {
	Verdict     string   `json:"verdict"` // "pass", "over budget" or "cannot judge"
	Reason      string   `json:"reason"`
	ComputeFrom string   `json:"compute_from"` // where the times of computing come from, in words
	Loads       int64    `json:"loads"`
	Faster      int64    `json:"faster"`       // loads that took less time than computing
	Share       *Decimal `json:"share_faster"` // of all; null without loads
	// P99 is that of load time over compute time, and Low and High the ends of its
	// interval; null where nobody could compute them.
	P99        *Decimal `json:"p99"`
	Low        *Decimal `json:"p99_low"`
	High       *Decimal `json:"p99_high"`
	Confidence Decimal  `json:"confidence"`
}

// LoadGateOf is the document's form of a verdict; from says in words where the times of
// computing come from.
func LoadGateOf(v fio.LoadVerdict, from string) *LoadGate {
	g := &LoadGate{Verdict: v.Judgement.String(), Reason: v.Reason, ComputeFrom: from,
		Loads: int64(v.Loads), Faster: int64(v.Faster), Confidence: fio.Confidence}
	if v.Loads > 0 {
		g.Share, g.P99 = decimal(float64(v.Faster)/float64(v.Loads)), decimal(v.P99)
	}
	if v.High > 0 {
		g.Low, g.High = decimal(v.Low), decimal(v.High)
	}
	return g
}

// Worst is the verdict that decides of those that there are, "" if there is none, and
// its reason: over the budget before cannot judge before pass.
func (s *Spillway) Worst() (verdict, reason string) {
	rank := map[string]int{NotJudged: 1, fio.Pass.String(): 2, fio.CannotJudge.String(): 3, fio.Over.String(): 4}
	if g := s.Verdict; g != nil {
		verdict, reason = g.Verdict, g.Reason
	}
	if g := s.Loads; g != nil && rank[g.Verdict] > rank[verdict] {
		verdict, reason = g.Verdict, g.Reason
	}
	return verdict, reason
}
