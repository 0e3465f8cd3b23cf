package page

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/spillway-kv/spillway/fio/result"
)

// verdictView is the answer and why.
type verdictView struct {
	Class    string // pass, over or open
	Word     string
	Sentence string
	Why      []string
	Wide     template.HTML
	Narrow   template.HTML
}

// verdictOf puts the verdict into the words of somebody who runs drives.
func verdictOf(s *result.Spillway) *verdictView {
	g := s.Verdict
	if g == nil {
		return nil
	}
	v := &verdictView{Class: "open", Word: "Cannot judge", Sentence: capital(g.Reason) + "."}
	budget := latency(float64(g.BudgetNS))
	if g.P99NS != nil && g.MarginNS != nil {
		p99, margin := latency(float64(*g.P99NS)), float64(*g.MarginNS)
		share := 100 * margin / float64(g.BudgetNS)
		switch g.Verdict {
		case "pass":
			v.Class, v.Word = "pass", "Pass"
			v.Sentence = fmt.Sprintf("99 of 100 block reads are back within %s, and one token takes %s: %s (%.0f %% of the budget) to spare.", p99, budget, latency(margin), share)
			v.Why = append(v.Why, "The engine that loads its blocks from here does not wait for them: they are back before the GPU would have needed them.")
		case result.NotJudged:
			v.Word = "Block reads"
			v.Sentence = fmt.Sprintf("99 of 100 block reads are back within %s, and one token takes %s. This is not judged: %s.", p99, budget, g.Reason)
		case "over budget":
			v.Class, v.Word = "over", "Over budget"
			v.Sentence = fmt.Sprintf("1 of 100 block reads takes longer than %s, but one token takes %s: %s too late, %.2g times the budget.", p99, budget, latency(-margin), float64(*g.P99NS)/float64(g.BudgetNS))
			v.Why = append(v.Why, "The engine would wait for this medium at this load. Less in flight at each drive, more drives, or a slower token would help.")
		}
	}
	v.Sentence = atDepth(s, v) + v.Sentence
	if g.BudgetFrom != "" {
		v.Why = append(v.Why, fmt.Sprintf("The budget of %s: %s.", budget, g.BudgetFrom))
	}
	if g.LowNS != nil && g.HighNS != nil {
		takes := " The verdict takes the whole interval, not the one number."
		if g.Verdict == result.NotJudged {
			takes = ""
		}
		v.Why = append(v.Why, fmt.Sprintf("From %s reads, the true P99 lies between %s and %s with a confidence of %.0f %%.%s",
			count(g.Samples), latency(float64(*g.LowNS)), latency(float64(*g.HighNS)), 100*float64(g.Confidence), takes))
	}
	v.Why = append(v.Why, depthWords(s)...)
	if g.P99NS != nil {
		b := bar{title: "P99 against the budget", p99: float64(*g.P99NS), limit: float64(g.BudgetNS), limitName: "budget", write: latency}
		if g.LowNS != nil && g.HighNS != nil {
			b.low, b.high = float64(*g.LowNS), float64(*g.HighNS)
		}
		v.Wide, v.Narrow = b.draw(wide), b.draw(narrow)
	}
	return v
}

// depthWords say how much may be in flight, and how many drives that means.
func depthWords(s *result.Spillway) (all []string) {
	if s.Sweep != nil {
		if depth := s.Sweep.DepthUnderBudget; depth > 0 {
			all = append(all, fmt.Sprintf("Largest queue depth measured under the budget: %d.", depth))
		} else if s.Sweep.Judged() {
			all = append(all, "No queue depth that was measured stays under the budget.")
		}
	}
	e := s.Estimate
	switch {
	case e == nil || e.Drives == 0 && !e.Hopeless:
	case e.Hopeless:
		all = append(all, "An estimate by Little's law: no number of such drives would do, since even one read at a time would be over the budget.")
	case e.Swept:
		all = append(all, fmt.Sprintf("An estimate by Little's law: %s would serve these %d in flight, %.3g at each, within the budget, if the load spreads evenly.", drives(e.Drives), e.Depth, e.DepthEach))
	default:
		all = append(all, fmt.Sprintf("An estimate by Little's law, no measurement: a drive like this can have about %.0f in flight within the budget, so %s would serve these %d, if the load spreads evenly and P99 falls as the depth does. Measure it with --sweep.", math.Floor(e.DepthEach), drives(e.Drives), e.Depth))
	}
	return all
}

func drives(n int) string {
	if n == 1 {
		return "one such drive"
	}
	return fmt.Sprintf("%d such drives", n)
}

func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
