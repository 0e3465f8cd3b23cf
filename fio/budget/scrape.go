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
	"time"

	"github.com/spillway-kv/spillway/fio"
)

// The bounds of a scrape.
const (
	pageBytesMax  = 32 << 20
	scrapeTime    = 10 * time.Second
	intervalMax   = time.Hour
	listedMetrics = 12 // of an error's list
)

// errScrape: a page of metrics does not tell the time of a token.
var errScrape = errors.New("no budget from metrics")

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// scrape takes the budget from an engine's metrics.
func (a *Ask) scrape(ctx context.Context, m Machine) (*Budget, error) {
	u, err := url.Parse(a.From)
	if err != nil || u.Host == "" {
		return nil, usage("budget-from", "%q is not the address of a page, such as http://127.0.0.1:8000/metrics", a.From)
	}
	want, err := parseStatistic(a.Statistic)
	if err != nil {
		return nil, &UsageError{"budget-statistic", err}
	}
	filter, err := parseLabels(a.Labels)
	if err != nil {
		return nil, &UsageError{"budget-labels", err}
	}
	interval, err := parseInterval(a.Interval)
	if err != nil {
		return nil, &UsageError{"budget-interval", err}
	}
	r, notes, err := m.read(ctx, u, filter, want, interval)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	r.Labels = a.Labels
	if _, err := fio.ParseBudget(r.Value.String()); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", u.Redacted(), r.Name, err)
	}
	return &Budget{PerToken: r.Value, Source: Metric, Where: r.where() + " at " + u.Redacted(), Metric: r, Notes: notes}, nil
}

// read scrapes once, or twice with an interval between.
func (m Machine) read(ctx context.Context, u *url.URL, filter map[string]string, want statistic, interval time.Duration) (*Reading, []string, error) {
	before, err := m.page(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	found, h, err := before.find(filter)
	if err != nil {
		return nil, nil, err
	}
	if interval > 0 {
		if err := m.sleep(ctx, interval); err != nil {
			return nil, nil, err
		}
		after, err := m.page(ctx, u)
		if err != nil {
			return nil, nil, err
		}
		h2, err := after.sum(found, filter)
		if err != nil {
			return nil, nil, err
		}
		h = h2.less(h)
	}
	if h.count == 0 {
		since := "since the engine started"
		if interval > 0 {
			since = fmt.Sprintf("within %v", interval)
		}
		return nil, nil, fmt.Errorf("%w: %s has no observations %s; send it requests", errScrape, found.name, since)
	}
	r := &Reading{Engine: found.engine, Name: found.name, Over: interval}
	if err := want.of(h, r); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errScrape, err)
	}
	var notes []string
	if found.note != "" {
		notes = append(notes, found.note)
	}
	if !want.mean {
		notes = append(notes, quantileNote(r))
	}
	return r, notes, nil
}

func quantileNote(r *Reading) string {
	if r.UpperBound == 0 {
		return fmt.Sprintf("%s lies beyond the last bound of the histogram, %v, which stands for it: the true value is higher", r.Statistic, r.LowerBound)
	}
	return fmt.Sprintf("%s lies between %v and %v, as the histogram tells; within, observations are taken as spread evenly", r.Statistic, r.LowerBound, r.UpperBound)
}

func (m Machine) sleep(ctx context.Context, d time.Duration) error {
	if m.Sleep != nil {
		return m.Sleep(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// page is the samples of a page of metrics that are of engines.
type page []sample

// page fetches one.
func (m Machine) page(ctx context.Context, u *url.URL) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	c := m.Client
	if c == nil {
		c = http.DefaultClient
	}
	answer, err := c.Do(request)
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
		if name := s.labels["model_name"]; name != "" && !slices.Contains(models, name) {
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

// parseLabels reads name=value,...
func parseLabels(text string) (map[string]string, error) {
	found := map[string]string{}
	if text == "" {
		return found, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=value", part)
		}
		found[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	return found, nil
}

func parseInterval(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > intervalMax {
		return 0, fmt.Errorf("%q is not a time up to %v, such as 30s", text, intervalMax)
	}
	return d, nil
}
