package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spillway-kv/spillway/fio/spread"
)

// report is the JSON that is written: docs/benchmarks.md describes it.
type report struct {
	Facts  facts          `json:"facts"`
	Config map[string]any `json:"config"`
	Items  []*item        `json:"items"`
}

// item is one line of the table of bars. Each carries its own date, commit and
// load, since items can be measured one by one.
type item struct {
	Name           string          `json:"name"`
	Title          string          `json:"title"`
	Date           string          `json:"date"`
	Commit         string          `json:"commit"`
	Pairs          int             `json:"pairs"`
	RuntimeSeconds float64         `json:"runtime_s"` // of one run
	Seconds        float64         `json:"seconds"`   // that the item took
	LoadAverage    spread.Spread   `json:"load_average"`
	Notes          []string        `json:"notes"`
	Rows           []row           `json:"rows"`
	Sides          []sideMedians   `json:"sides,omitempty"`
	Replay         json.RawMessage `json:"replay,omitempty"` // as the replay printed it
}

// row is one number: of ours against a reference, or, without one, by itself.
type row struct {
	Cell            string         `json:"cell"`
	Measure         string         `json:"measure"`
	Unit            string         `json:"unit"`
	Ours            string         `json:"ours,omitempty"`
	OursMedian      float64        `json:"ours_median"`
	OursSpread      *spread.Spread `json:"ours_spread,omitempty"` // without a reference
	Reference       string         `json:"reference,omitempty"`
	ReferenceMedian float64        `json:"reference_median,omitempty"`
	Ratio           *spread.Spread `json:"ratio,omitempty"`                 // ours over reference, in the same round
	Self            *spread.Spread `json:"reference_over_itself,omitempty"` // its second run in a round over its first
	Ratios          []float64      `json:"ratios,omitempty"`                // by round
	Bar             *spread.Bar    `json:"bar,omitempty"`                   // none: reported only
	Met             spread.Verdict `json:"met,omitempty"`
}

// sideMedians are the medians of one side in one cell.
type sideMedians struct {
	Cell       string  `json:"cell"`
	BlockBytes int     `json:"block_bytes"`
	Depth      int     `json:"depth"`
	Side       string  `json:"side"`
	IOPS       float64 `json:"iops"`
	P50US      float64 `json:"p50_us"`
	P99US      float64 `json:"p99_us"`
	P999US     float64 `json:"p99_9_us"`
	CPUPerIOUS float64 `json:"cpu_per_io_us"`
}

// single is a row without a reference.
func single(cell, measure, unit string, values []float64, bar *spread.Bar) row {
	s := spread.Of(rounded(values))
	out := row{Cell: cell, Measure: measure, Unit: unit, OursMedian: s.Median, OursSpread: &s, Bar: bar}
	if bar != nil {
		out.Met = bar.Judge(s, nil)
	}
	return out
}

// rounded keeps four digits: the file is to be read.
func rounded(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if v != 0 && !math.IsNaN(v) && !math.IsInf(v, 0) {
			unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
			v = math.Round(v/unit) * unit
		}
		out[i] = v
	}
	return out
}

func (c *config) shown() map[string]any {
	return map[string]any{"size_bytes": c.sizeBytes, "ram_drive_bytes": c.ramBytes, "entries": c.entries, "depths": c.depths}
}

// write writes what is asked for: the JSON, and the documentation.
func (r *report) write(c *config) error {
	if c.json != "" {
		if err := r.writeJSON(c.json); err != nil {
			return err
		}
	}
	if c.docs == "" {
		return nil
	}
	folder := filepath.Join(c.docs, "bench")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	latest := filepath.Join(folder, "latest.json")
	whole, err := r.onto(latest)
	if err != nil {
		return err
	}
	if err := whole.writeJSON(latest); err != nil {
		return err
	}
	if err := whole.plot(folder); err != nil {
		return err
	}
	return insert(filepath.Join(c.docs, "benchmarks.md"), whole.markdown())
}

func (r *report) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// onto adds the items of an earlier report that this one does not have, if it
// comes from the same machine.
func (r *report) onto(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	var old report
	if err := json.Unmarshal(text, &old); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if old.Facts.CPU != r.Facts.CPU || old.Facts.Drive != r.Facts.Drive || old.Facts.Cores != r.Facts.Cores {
		return r, nil
	}
	whole := *r
	whole.Items = slices.Clone(r.Items)
	for _, it := range old.Items {
		if !slices.ContainsFunc(r.Items, func(mine *item) bool { return mine.Name == it.Name }) {
			whole.Items = append(whole.Items, it)
		}
	}
	names := itemNames()
	slices.SortStableFunc(whole.Items, func(a, b *item) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	return &whole, nil
}
