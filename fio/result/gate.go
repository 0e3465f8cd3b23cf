package result

import "github.com/spillway-kv/spillway/fio"

// Gate is a verdict in the document. Numbers nobody could compute are null.
type Gate struct {
	Verdict    string  `json:"verdict"` // "pass", "over budget" or "cannot judge"
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
