package budget

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/fio"
)

// The bounds of a scrape.
const (
	pageBytesMax  = 32 << 20
	scrapeTime    = 10 * time.Second
	intervalMax   = time.Hour
	bucketsMax    = 256 // of one series; engines have some twenty
	listedMetrics = 12  // of an error's list
	modelsListed  = 12
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
	before, err := fetch(ctx, u)
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
		after, err := fetch(ctx, u)
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
