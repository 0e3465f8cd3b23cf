package page

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/spillway-kv/spillway/fio/chart"
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
		case "over budget":
			v.Class, v.Word = "over", "Over budget"
			v.Sentence = fmt.Sprintf("1 of 100 block reads takes longer than %s, but one token takes %s: %s too late, %.2g times the budget.", p99, budget, latency(-margin), float64(*g.P99NS)/float64(g.BudgetNS))
			v.Why = append(v.Why, "The engine would wait for this medium at this load. Less in flight at each drive, more drives, or a slower token would help.")
		}
	}
	if s.Sweep != nil && len(s.Sweep.Points) > 0 && v.Class != "open" {
		depth := s.Sweep.DepthUnderBudget
		if depth == 0 {
			depth = s.Sweep.Points[0].Depth
		}
		v.Sentence = fmt.Sprintf("At queue depth %d %s", depth, v.Sentence)
	}
	if g.BudgetFrom != "" {
		v.Why = append(v.Why, fmt.Sprintf("The budget of %s: %s.", budget, g.BudgetFrom))
	}
	if g.LowNS != nil && g.HighNS != nil {
		v.Why = append(v.Why, fmt.Sprintf("From %s reads, the true P99 lies between %s and %s with a confidence of %.0f %%. The verdict takes the whole interval, not the one number.",
			count(g.Samples), latency(float64(*g.LowNS)), latency(float64(*g.HighNS)), 100*float64(g.Confidence)))
	}
	v.Why = append(v.Why, depthWords(s)...)
	if g.P99NS != nil {
		v.Wide, v.Narrow = budgetBar(g, wide), budgetBar(g, narrow)
	}
	return v
}

// depthWords say how much may be in flight, and how many drives that means.
func depthWords(s *result.Spillway) (all []string) {
	if s.Sweep != nil {
		if depth := s.Sweep.DepthUnderBudget; depth > 0 {
			all = append(all, fmt.Sprintf("Largest queue depth measured under the budget: %d.", depth))
		} else if s.Sweep.BudgetNS > 0 {
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

// budgetBar shows P99 with its interval on a line from 0, and the budget on it.
func budgetBar(g *result.Gate, s size) template.HTML {
	values := []float64{float64(g.BudgetNS) * 1.15, float64(*g.P99NS) * 1.1}
	if g.HighNS != nil {
		values = append(values, float64(*g.HighNS)*1.02)
	}
	c := &chart.Canvas{}
	const top, height = 38.0, 16.0
	x := chart.Linear(values, s.steps, 12, s.width-12)
	unitTicks(c, x, top, top+height, top+height+18)
	end := x.At(float64(*g.P99NS))
	c.Rect(x.At(0), top, end-x.At(0), height, `class="bar"`)
	if g.LowNS != nil && g.HighNS != nil {
		low, high := x.At(float64(*g.LowNS)), x.At(float64(*g.HighNS))
		c.Line(low, top+height/2, high, top+height/2, `class="interval"`)
		c.Line(low, top+3, low, top+height-3, `class="interval"`)
		c.Line(high, top+3, high, top+height-3, `class="interval"`)
	}
	at := x.At(float64(g.BudgetNS))
	c.Line(at, top-14, at, top+height+5, `class="budget"`)
	label(c, at, top-20, s, "budgetText", "budget "+latency(float64(g.BudgetNS)))
	label(c, end, top-4, s, "text", "P99 "+latency(float64(*g.P99NS)))
	return s.picture(c, top+height+24, "P99 against the budget",
		fmt.Sprintf("P99 is %s, the budget is %s.", latency(float64(*g.P99NS)), latency(float64(g.BudgetNS))))
}
