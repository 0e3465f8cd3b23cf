package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// page is the samples of a page of metrics that are of engines.
type page []sample

// fetch asks for a page.
func fetch(ctx context.Context, u *url.URL) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // one question, no connection that stays
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err // the address stands before it
		}
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: the answer is %s; is the path right, and are metrics switched on?", errScrape, answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, pageBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(body) > pageBytesMax {
		return nil, fmt.Errorf("%w: the page has more than %d bytes", errScrape, pageBytesMax)
	}
	samples, err := exposition(string(body), func(name string) bool { return engineOf(name) != "" })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errScrape, err)
	}
	return samples, nil
}

// find picks the best metric that is there.
func (p page) find(filter map[string]string) (metric, histogram, error) {
	for _, m := range metrics {
		if !slices.ContainsFunc(p, func(s sample) bool { return plainName(s.name) == plainName(m.name)+"_count" }) {
			continue
		}
		h, err := p.sum(m, filter)
		return m, h, err
	}
	return metric{}, histogram{}, p.nothing()
}

// nothing says what is on the page instead.
func (p page) nothing() error {
	var names []string
	for _, s := range p {
		if base, ok := strings.CutSuffix(s.name, "_count"); ok && !slices.Contains(names, base) {
			names = append(names, base)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%w: none of vLLM, SGLang, TensorRT-LLM or TGI is on the page", errScrape)
	}
	slices.Sort(names)
	more := ""
	if n := len(names); n > listedMetrics {
		names, more = names[:listedMetrics], fmt.Sprintf(" and %d more", n-listedMetrics)
	}
	return fmt.Errorf("%w: none of the histograms on the page is a time of one token; there are %s%s", errScrape, strings.Join(names, ", "), more)
}

// sum adds the series of a metric up that have the wanted labels. Series of several
// models are refused.
func (p page) sum(m metric, filter map[string]string) (total histogram, err error) {
	own, err := parseLabels(m.labels)
	if err != nil {
		panic(err) // of the table
	}
	series := map[string]*histogram{}
	var order, models, seen []string
	for _, s := range p {
		part, ok := strings.CutPrefix(plainName(s.name), plainName(m.name))
		if !ok || part != "_count" && part != "_sum" && part != "_bucket" || !has(s.labels, own) {
			continue
		}
		key := labelsKey(s.labels)
		if part == "_count" {
			seen = append(seen, "{"+key+"}")
		}
		if !has(s.labels, filter) {
			continue
		}
		h := series[key]
		if h == nil {
			h = &histogram{}
			series[key] = h
			order = append(order, key)
		}
		if name := s.labels["model_name"]; name != "" && len(models) < modelsListed && !slices.Contains(models, name) {
			models = append(models, name)
		}
		if err := h.take(part, s); err != nil {
			return total, fmt.Errorf("%w: %s: %w", errScrape, m.name, err)
		}
	}
	switch {
	case len(order) == 0:
		return total, fmt.Errorf("%w: no series of %s has these labels; there are %s", errScrape, m.name, strings.Join(seen, ", "))
	case len(models) > 1:
		return total, fmt.Errorf("%w: %s has series of several models: %s; choose one with --budget-labels=model_name=%s", errScrape, m.name,
			strings.Join(models, ", "), models[0])
	}
	for _, key := range order {
		h := series[key]
		slices.SortFunc(h.buckets, func(a, b bucket) int { return cmp.Compare(a.upper, b.upper) })
		total = total.add(*h)
	}
	return total, nil
}

// take puts one sample into the histogram of its series.
func (h *histogram) take(part string, s sample) error {
	if math.IsNaN(s.value) || math.IsInf(s.value, 0) || s.value < 0 {
		return fmt.Errorf("a value of %g", s.value)
	}
	switch part {
	case "_count":
		h.count = s.value
	case "_sum":
		h.sum = s.value
	default:
		upper, err := strconv.ParseFloat(s.labels["le"], 64)
		if err != nil || math.IsNaN(upper) {
			return fmt.Errorf("a bucket with the bound %.20q", s.labels["le"])
		}
		if len(h.buckets) == bucketsMax {
			return fmt.Errorf("a series of more than %d buckets", bucketsMax)
		}
		h.buckets = append(h.buckets, bucket{upper, s.value})
	}
	return nil
}

// labelsKey names a series: all labels but a bucket's bound.
func labelsKey(labels map[string]string) string {
	var all []string
	for name, value := range labels {
		if name != "le" {
			all = append(all, fmt.Sprintf("%s=%q", name, value))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func has(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return true
}
