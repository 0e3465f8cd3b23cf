package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

// TestMain lets the test binary be the benchmark's child.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		if err := work.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func samples(iops ...float64) []*work.Sample {
	all := make([]*work.Sample, len(iops))
	for i, v := range iops {
		if v > 0 {
			all[i] = &work.Sample{IOPS: v, P99NS: 1e6 / v}
		}
	}
	return all
}

func TestRow(t *testing.T) {
	r := runs{ours: samples(90, 220, 400), "fio psync": samples(100, 200, 400), again("fio psync"): samples(80, 200, 480), "rare": samples(50, 0, 0)}
	got := r.row("cell", iops, ours, "fio psync", &spread.Bar{Limit: 1.2, Higher: true})
	if want := []float64{0.9, 1.1, 1}; !slices.Equal(got.Ratios, want) {
		t.Errorf("ratios %v, want those of the same round, %v", got.Ratios, want)
	}
	if got.OursMedian != 220 || got.ReferenceMedian != 200 || got.Ratio.Median != 1 {
		t.Errorf("%+v", got)
	}
	if got.Self == nil || math.Abs(got.Self.Low-0.84) > 1e-9 || got.Met != spread.WithinNoise {
		t.Errorf("reference over itself %v, met %q", got.Self, got.Met)
	}
	if got := r.row("cell", iops, "rare", "fio psync", nil); len(got.Ratios) != 1 || got.Ratios[0] != 0.5 || got.Met != "" {
		t.Errorf("a side of one round: %+v", got)
	}
}

func TestBest(t *testing.T) {
	r := runs{"a": samples(10, 20, 30), "b": samples(11, 12, 40), "none": samples(0, 0, 0)}
	if got := r.best(iops, "none", "b", "a"); got != "a" {
		t.Errorf("most IOPS: %q, want a", got)
	}
	if got := r.best(p99, "none", "b", "a"); got != "a" {
		t.Errorf("lowest P99: %q, want a", got)
	}
}

// TestAlternate: every side runs once a round, in a rotating order.
func TestAlternate(t *testing.T) {
	b := &bench{config: config{pairs: 4}, item: &item{Name: "test"}}
	var order strings.Builder
	turn := func(name string, every int) side {
		return side{name: name, every: every, run: func(int) (work.Sample, error) {
			order.WriteString(name)
			return work.Sample{IOPS: 1}, nil
		}}
	}
	r, err := b.alternate(t.Context(), "cell", []side{turn("a", 1), turn("b", 0), turn("c", 3)})
	if err != nil {
		t.Fatal(err)
	}
	if got := order.String(); got != "abc"+"ba"+"ab"+"abc" {
		t.Errorf("order %q", got)
	}
	if r["c"][0] == nil || r["c"][1] != nil || r["c"][3] == nil || len(b.loads) != 4 {
		t.Errorf("%v, loads %v", r, b.loads)
	}
}

func TestParseFio(t *testing.T) {
	const text = `fio: a warning
{"jobs":[{"read":{"iops":70,"total_ios":700,"runtime":10000,"lat_ns":{"percentile":{"50.000000":5,"99.000000":9,"99.900000":11}}},
"write":{"iops":30,"total_ios":300,"runtime":10001,"lat_ns":{"percentile":{"99.000000":77}}}}]}`
	s, err := parseFio([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if s.IOPS != 100 || s.Ops != 1000 || s.P50NS != 5 || s.P99NS != 9 || s.P999NS != 11 || s.Seconds != 10.001 ||
		s.Values["read_iops"] != 70 || s.Values["write_p99_ns"] != 77 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{"", "{", `{"jobs":[]}`, `{"jobs":[{"read":{}}]}`} {
		if _, err := parseFio([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a result", bad)
		}
	}
}

func TestParse(t *testing.T) {
	c, err := parse([]string{"-tiny", "-pairs", "2", "-only", "reads,null", "-docs", "docs", "-depths", "4"})
	if err != nil {
		t.Fatal(err)
	}
	if c.pairs != 2 || c.docs != "" || !slices.Equal(c.only, []string{"reads", "null"}) || !slices.Equal(c.depths, []int{4}) {
		t.Errorf("%+v: want the pairs that were given, and nothing written to the docs", c)
	}
	for _, bad := range [][]string{{"-only", "nothing"}, {"-pairs", "0"}, {"-runtime", "1500ms"}, {"-depths", "1,x"}, {"more"}, {"-size", "1"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestWrite: a second run of one item replaces it and keeps the others, and the
// page keeps what stands around the tables.
func TestWrite(t *testing.T) {
	c := config{docs: t.TempDir()}
	page := filepath.Join(c.docs, "benchmarks.md")
	if err := os.WriteFile(page, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self := &spread.Spread{Median: 1, Low: 0.9, High: 1.1}
	made := func(name string, ratio float64) *item {
		return &item{Name: name, Title: "T " + name, Rows: []row{{Cell: "64 KiB, depth 16", Measure: "IOPS", Unit: "1/s", Ours: ours, OursMedian: 1234.4,
			Reference: "fio psync", ReferenceMedian: 1000, Ratio: &spread.Spread{Median: ratio, Low: 1, High: 2}, Self: self, Bar: &spread.Bar{Limit: 0.95, Higher: true}, Met: spread.Met}},
			Sides: []sideMedians{{Cell: "64 KiB, depth 1", Depth: 1, Side: ours, IOPS: 5}, {Cell: "64 KiB, depth 16", Depth: 16, Side: ours, IOPS: 9},
				{Cell: "1 MiB, depth 1", Depth: 1, Side: ours, IOPS: 7}}}
	}
	first := &report{Items: []*item{made("reads", 1.5), made("puts", 1.25)}}
	second := &report{Items: []*item{made("puts", 1.75)}}
	for _, r := range []*report{first, second} {
		if err := r.write(&c); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{"before\n": 1, "\nafter\n": 1, "old": 0, "1.50 (1.00–2.00)": 1, "1.25": 0, "1.75 (1.00–2.00)": 1, "| 64 KiB, depth 16 | IOPS | 1234 |": 2} {
		if got := bytes.Count(text, []byte(want)); got != n {
			t.Errorf("%d times %q in the page, want %d:\n%s", got, want, n, text)
		}
	}
	var latest report
	text, err = os.ReadFile(filepath.Join(c.docs, "bench", "latest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &latest); err != nil || len(latest.Items) != 2 || latest.Items[1].Rows[0].Ratio.Median != 1.75 {
		t.Errorf("%v, %s", err, text)
	}
	for _, name := range []string{"ratios.svg", "reads-iops.svg", "reads-p99.svg"} {
		picture, err := os.ReadFile(filepath.Join(c.docs, "bench", name))
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(picture))
		for err == nil {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := insert(filepath.Join(c.docs, "bench", "latest.json"), "text"); err == nil {
		t.Error("a page without marks was taken")
	}
}

func TestRounded(t *testing.T) {
	got := rounded([]float64{0, 1.23456, 123456, 0.000123456})
	for i, want := range []float64{0, 1.235, 123500, 0.0001235} {
		if math.Abs(got[i]-want) > 1e-9*want {
			t.Errorf("%v, want %v", got[i], want)
		}
	}
}

// TestTiny runs every item with the smallest sizes: that it ends and reports,
// not how fast.
func TestTiny(t *testing.T) {
	if os.Getenv("SPILLWAY_LONG") == "" {
		t.Skip("SPILLWAY_LONG is not set")
	}
	if err := findFio(); err != nil {
		t.Skip(err)
	}
	c, err := parse([]string{"-tiny", "-depths", "2", "-dir", ".", "-json", filepath.Join(t.TempDir(), "out.json"), "-spillway", "../../bin/spillway"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := run(ctx, c, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.json)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Items) != len(specs()) {
		t.Fatalf("%d items, want %d", len(r.Items), len(specs()))
	}
	for _, it := range r.Items {
		if len(it.Rows) == 0 && it.Name != "ram" && it.Name != "replay" { // these say why they were not measured
			t.Errorf("%s has no numbers: %v", it.Name, it.Notes)
		}
		for _, x := range it.Rows {
			if x.OursMedian <= 0 && it.Name != "resident" && it.Name != "match" || x.Reference != "" && x.ReferenceMedian <= 0 {
				t.Errorf("%s: %s %s: %v against %v", it.Name, x.Cell, x.Measure, x.OursMedian, x.ReferenceMedian)
			}
		}
	}
}
