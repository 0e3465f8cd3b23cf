package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/tiering/model"
)

// Compute tells how long the GPU takes to compute a prefix from its beginning: what
// loading it is judged against.
type Compute struct {
	Where string          // where the times come from, in words
	setup *model.Setup    // of a roofline; nil: measured
	times []StoredPrefill // measured, by rising length
}

// Compute finds the times of prefixes. Measured ones go first: those of --prefill, then
// those of the measurement that the budget b came from; else the roofline of b's model
// and GPU. b may be nil. The answer is nil if nothing tells.
func (a *Ask) Compute(b *Budget) (*Compute, error) {
	if a.Prefill != "" {
		times, err := parsePrefill(a.Prefill)
		if err != nil {
			return nil, &UsageError{"prefill", err}
		}
		return ofPrompts("--prefill", times), nil
	}
	switch {
	case b == nil:
	case len(b.Prefill) > 0:
		return ofPrompts(b.Where, b.Prefill), nil
	case b.Setup != nil && b.Setup.Prefill(1).Time > 0:
		return &Compute{Where: "prefill roofline of " + Describe(b.Setup), setup: b.Setup}, nil
	}
	return nil, nil
}

func ofPrompts(where string, times []StoredPrefill) *Compute {
	times = slices.Clone(times)
	slices.SortFunc(times, func(x, y StoredPrefill) int {
		return cmp.Or(cmp.Compare(x.Tokens, y.Tokens), cmp.Compare(x.MS, y.MS))
	})
	times = slices.CompactFunc(times, func(x, y StoredPrefill) bool { return x.Tokens == y.Tokens }) // the shortest stays
	return &Compute{Where: "prefill measured, " + where, times: times}
}

// Of is the time of a prefix of so many tokens; 0 of none. Between two measured lengths
// it lies on the line between them. Under the shortest and over the longest it
// takes their time for each token, which is too little for longer ones: a token costs
// the more the more lie before it.
func (c *Compute) Of(tokens int) time.Duration {
	switch {
	case tokens <= 0:
		return 0
	case c.setup != nil:
		return c.setup.Prefill(tokens).Time
	}
	after, found := slices.BinarySearchFunc(c.times, tokens, func(p StoredPrefill, n int) int { return cmp.Compare(p.Tokens, n) })
	perToken := func(p StoredPrefill) float64 { return p.MS / float64(p.Tokens) * float64(tokens) }
	switch {
	case found:
		return toTime(c.times[after].MS / 1e3)
	case after == 0:
		return toTime(perToken(c.times[0]) / 1e3)
	case after == len(c.times):
		return toTime(perToken(c.times[after-1]) / 1e3)
	}
	low, high := c.times[after-1], c.times[after]
	share := float64(tokens-low.Tokens) / float64(high.Tokens-low.Tokens)
	return toTime((low.MS + share*(high.MS-low.MS)) / 1e3)
}

// parsePrefill reads measured prompts such as 1k:40ms,8k:420ms.
func parsePrefill(text string) (times []StoredPrefill, err error) {
	for part := range strings.SplitSeq(text, ",") {
		length, took, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("%q is no prompt; write tokens and time, like 8k:420ms", part)
		}
		tokens, err := count(length, 0)
		if err != nil {
			return nil, err
		}
		d, err := time.ParseDuration(took)
		if err != nil || d <= 0 || tokens == 0 {
			return nil, fmt.Errorf("%q is no prompt; write tokens and time, like 8k:420ms", part)
		}
		times = append(times, StoredPrefill{tokens, inMS(d)})
	}
	return times, nil
}
