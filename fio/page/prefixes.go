package page

import (
	"fmt"

	"github.com/spillway-kv/spillway/fio/result"
)

// loadsVerdict puts the verdict on whole prefixes, load or recompute, into words.
func loadsVerdict(s *result.Spillway) *verdictView {
	g := s.Loads
	if g == nil {
		return nil
	}
	v := &verdictView{Class: "open", Word: "Cannot judge loads of prefixes", Sentence: capital(g.Reason) + "."}
	if g.P99 != nil && g.Share != nil {
		p99 := digits(float64(*g.P99))
		switch g.Verdict {
		case "pass":
			v.Class, v.Word = "pass", "Loading beats computing"
			v.Sentence = fmt.Sprintf("99 of 100 prefixes are loaded in at most %s times the time that the GPU takes to compute them.", p99)
		case "over budget":
			v.Class, v.Word = "over", "Loading does not always beat computing"
			v.Sentence = fmt.Sprintf("1 of 100 prefixes takes longer to load than %s times the time that the GPU takes to compute it.", p99)
			v.Why = append(v.Why, "The engine would do better to compute those. Less load on each drive, more drives, or loading long prefixes only would help.")
		}
		v.Why = append(v.Why, fmt.Sprintf("%s of %s loads (%s %%) were faster than computing.", count(g.Faster), count(g.Loads), digits(100*float64(*g.Share))))
	}
	v.Sentence = atDepth(s, v) + v.Sentence
	v.Why = append(v.Why, "Times of computing: "+g.ComputeFrom+".")
	if g.P99 == nil {
		return v
	}
	b := bar{title: "Load time over compute time", p99: float64(*g.P99), limit: 1, limitName: "computing", write: digits}
	if g.Low != nil && g.High != nil {
		b.low, b.high = float64(*g.Low), float64(*g.High)
		v.Why = append(v.Why, fmt.Sprintf("The true P99 of load time over compute time lies between %s and %s with a confidence of %.0f %%. The verdict takes the whole interval, not the one number.",
			digits(b.low), digits(b.high), 100*float64(g.Confidence)))
	}
	v.Wide, v.Narrow = b.draw(wide), b.draw(narrow)
	return v
}

// atDepth says of a sweep which depth a verdict is of. What cannot be judged says so in
// its reason.
func atDepth(s *result.Spillway, v *verdictView) string {
	if s.Sweep == nil || len(s.Sweep.Points) == 0 || v.Class == "open" {
		return ""
	}
	depth := s.Sweep.DepthUnderBudget
	if depth == 0 {
		depth = s.Sweep.Points[0].Depth
	}
	return fmt.Sprintf("At queue depth %d, ", depth)
}
