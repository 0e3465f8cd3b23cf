package budget

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reading is what a metric of an engine says.
type Reading struct {
	Engine    string // vllm, sglang, tensorrt-llm or tgi
	Name      string // of the metric
	Labels    string // of the series that were counted, as asked for
	Statistic string // mean, or p and a number
	Value     time.Duration
	Count     float64       // observations
	Over      time.Duration // between two scrapes; 0: since the engine started
	// LowerBound and UpperBound are the bucket that a quantile lies in; it is taken
	// as if observations were spread evenly there. UpperBound is 0 when the bucket
	// is the last one, without an end: the value is LowerBound then, and too low.
	LowerBound, UpperBound time.Duration
}

func (r *Reading) where() string {
	text := fmt.Sprintf("%s of %s", r.Statistic, r.Name)
	if r.Labels != "" {
		text += "{" + r.Labels + "}"
	}
	if r.Over == 0 {
		return fmt.Sprintf("%s, %.0f observations since the engine started", text, r.Count)
	}
	return fmt.Sprintf("%s, %.0f observations in %v", text, r.Count, r.Over)
}

// bucket is a bar of a histogram: how many observations were at most upper.
type bucket struct{ upper, count float64 }

// histogram is one of Prometheus's, summed over series.
type histogram struct {
	count, sum float64
	buckets    []bucket // ascending; the last, +Inf, may be missing
}

// less is what h has observed since before; a counter that fell began again.
func (h histogram) less(before histogram) histogram {
	if h.count < before.count {
		return h
	}
	h.count -= before.count
	h.sum -= before.sum
	h.buckets = slices.Clone(h.buckets)
	for i := range h.buckets {
		for _, old := range before.buckets {
			if old.upper == h.buckets[i].upper {
				h.buckets[i].count -= old.count
			}
		}
	}
	return h
}

// add sums another series in; both have the same bounds, or the bound that one
// lacks is dropped.
func (h histogram) add(more histogram) histogram {
	if h.count == 0 && h.buckets == nil {
		return more
	}
	var shared []bucket
	for _, b := range h.buckets {
		for _, m := range more.buckets {
			if m.upper == b.upper {
				shared = append(shared, bucket{b.upper, b.count + m.count})
			}
		}
	}
	return histogram{h.count + more.count, h.sum + more.sum, shared}
}

// statistic is what to take of a histogram.
type statistic struct {
	mean     bool
	quantile float64 // 0 to 1
}

func (s statistic) String() string {
	if s.mean {
		return "mean"
	}
	return "p" + strconv.FormatFloat(math.Round(s.quantile*1e6)/1e4, 'g', -1, 64)
}

func parseStatistic(text string) (statistic, error) {
	if text == "" || text == "mean" {
		return statistic{mean: true}, nil
	}
	digits, isP := strings.CutPrefix(strings.ToLower(text), "p")
	p, err := strconv.ParseFloat(digits, 64)
	if !isP || err != nil || !(p >= 1 && p <= 99.9) {
		return statistic{}, fmt.Errorf("%q is neither mean nor a quantile from p1 to p99.9", text)
	}
	return statistic{quantile: p / 100}, nil
}

// of takes the statistic of a histogram of seconds.
func (s statistic) of(h histogram, r *Reading) error {
	r.Statistic, r.Count = s.String(), h.count
	if s.mean {
		if !(h.sum > 0) {
			return fmt.Errorf("%s: a sum of %g over %g observations", r.Name, h.sum, h.count)
		}
		r.Value = toTime(h.sum / h.count)
		return nil
	}
	if len(h.buckets) == 0 {
		return fmt.Errorf("%s has no buckets; take the mean", r.Name)
	}
	rank, lower, below := s.quantile*h.count, 0.0, 0.0
	for _, b := range h.buckets {
		if b.count >= rank && b.count > below && !math.IsInf(b.upper, 1) {
			r.LowerBound, r.UpperBound = toTime(lower), toTime(b.upper)
			r.Value = toTime(lower + (b.upper-lower)*(rank-below)/(b.count-below))
			return nil
		}
		if !math.IsInf(b.upper, 1) {
			lower, below = b.upper, b.count
		}
	}
	r.LowerBound, r.Value = toTime(lower), toTime(lower)
	return nil
}

func toTime(seconds float64) time.Duration {
	return time.Duration(min(math.Round(seconds*1e9), 1<<62))
}
