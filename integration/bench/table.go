package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/chart"
)

// The generated part of the page lies between these lines.
const (
	beginMark = "<!-- bench: begin -->"
	endMark   = "<!-- bench: end -->"
)

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n![Ours over the reference, for every number with a bar](bench/ratios.svg)\n\n", r.Facts)
	for _, it := range r.Items {
		b.WriteString(it.markdown())
		if it.plotted() {
			fmt.Fprintf(&b, "![IOPS against depth](bench/%s-iops.svg)\n![P99 against depth](bench/%s-p99.svg)\n\n", it.Name, it.Name)
		}
	}
	return b.String()
}

// plotted reports whether the item has pictures of its own.
func (it *item) plotted() bool {
	return (it.Name == "reads" || it.Name == "ram" || it.Name == "files") && len(it.Sides) > 0
}

// markdown is one item's table.
func (it *item) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s (`%s`)\n\n", it.Title, it.Name)
	runs := fmt.Sprintf("%d rounds, runs of %.0f s", it.Pairs, it.RuntimeSeconds)
	if it.RuntimeSeconds == 0 {
		runs = fmt.Sprintf("runs: %d", it.Pairs)
	}
	fmt.Fprintf(&b, "%s UTC, commit %s, %s, load average %.1f (%.1f–%.1f). %s\n\n", it.Date, it.Commit, runs,
		it.LoadAverage.Median, it.LoadAverage.Low, it.LoadAverage.High, strings.Join(it.Notes, " "))
	if len(it.Rows) == 0 {
		return b.String()
	}
	b.WriteString("| what | number | ours, median | reference, median | ours / reference (middle 80 %) | reference / itself | bar | met |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range it.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells(), " | "))
	}
	b.WriteString("\n")
	return b.String()
}

func (r *row) cells() []string {
	cells := []string{r.Cell, r.Measure, number(r.OursMedian, r.Unit), "", "", "", "", ""}
	if r.Ours != "" && r.Ours != ours {
		cells[2] = r.Ours + ": " + cells[2]
	}
	if r.Reference != "" {
		cells[3] = r.Reference + ": " + number(r.ReferenceMedian, r.Unit)
	}
	for i, s := range []*spread.Spread{r.Ratio, r.Self} {
		if s != nil {
			cells[4+i] = s.String()
		}
	}
	if r.Bar != nil {
		cells[6] = r.Bar.String()
		cells[7] = string(r.Met)
		if r.Met == spread.Missed {
			cells[7] = "**no**"
		}
	}
	return cells
}

func number(v float64, unit string) string {
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 {
		text = fmt.Sprintf("%.0f", v)
	}
	if unit == "" || unit == "1/s" {
		return text
	}
	return text + " " + unit
}

// insert replaces what lies between the marks of a page.
func insert(path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s: the lines %q and %q are missing", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n\n"+strings.TrimSpace(text)+"\n\n"+endMark+after), 0o644)
}

// plot writes ratios.svg, and throughput and P99 against depth of the reads.
func (r *report) plot(folder string) error {
	pictures := map[string][]byte{"ratios.svg": r.ratios()}
	for _, it := range r.Items {
		if !it.plotted() {
			continue
		}
		pictures[it.Name+"-iops.svg"] = it.lines(": whole blocks a second", func(s sideMedians) float64 { return s.IOPS })
		pictures[it.Name+"-p99.svg"] = it.lines(": P99 in µs", func(s sideMedians) float64 { return s.P99US })
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join(folder, name), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ratios draws every row that has a bar and a reference.
func (r *report) ratios() []byte {
	var rows []chart.Ratio
	for _, it := range r.Items {
		for _, x := range it.Rows {
			if x.Ratio != nil && x.Bar != nil {
				rows = append(rows, chart.Ratio{Label: it.Name + ", " + x.Cell + ": " + x.Measure, Ratio: *x.Ratio, Self: x.Self, Bar: x.Bar, Verdict: x.Met})
			}
		}
	}
	return chart.Ratios("Ours over the reference", rows)
}

// lines draws a panel per block size, with a line per side.
func (it *item) lines(what string, of func(sideMedians) float64) []byte {
	var panels []chart.Panel
	for _, s := range it.Sides {
		if strings.HasSuffix(s.Side, again("")) {
			continue
		}
		title := strings.TrimSuffix(s.Cell, fmt.Sprintf(", depth %d", s.Depth))
		if len(panels) == 0 || panels[len(panels)-1].Title != title {
			panels = append(panels, chart.Panel{Title: title})
		}
		p := &panels[len(panels)-1]
		x := fmt.Sprintf("depth %d", s.Depth)
		if len(p.X) == 0 || p.X[len(p.X)-1] != x {
			p.X = append(p.X, x)
		}
		if of(s) == 0 { // of a side that has no such number
			continue
		}
		at := -1
		for i := range p.Series {
			if p.Series[i].Name == s.Side {
				at = i
			}
		}
		if at < 0 {
			p.Series = append(p.Series, chart.Series{Name: s.Side})
			at = len(p.Series) - 1
		}
		for len(p.Series[at].Y) < len(p.X)-1 { // it took no part there
			p.Series[at].Y = append(p.Series[at].Y, 0)
		}
		p.Series[at].Y = append(p.Series[at].Y, of(s))
	}
	return chart.Lines(it.Title, strings.TrimPrefix(what, ": "), panels)
}
