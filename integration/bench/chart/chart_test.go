package chart

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/spillway-kv/spillway/fio/chart/charttest"
	"github.com/spillway-kv/spillway/fio/spread"
)

var keep = flag.String("keep", "", "folder to keep the pictures in, to look at")

func sampleRatios() []byte {
	self := &spread.Spread{Median: 1, Low: 0.9, High: 1.2}
	bar := &spread.Bar{Limit: 0.95, Higher: true}
	return Ratios("ratios <of> \"things\" & more", []Ratio{
		{Label: "64 KiB, depth 16: IOPS", Ratio: spread.Spread{Median: 1.1, Low: 1, High: 1.3}, Self: self, Bar: bar, Verdict: spread.Met},
		{Label: "64 KiB, depth 1: IOPS", Ratio: spread.Spread{Median: 0.92, Low: 0.9, High: 1}, Self: self, Bar: bar, Verdict: spread.WithinNoise},
		{Label: "1 MiB < 2 MiB & so on", Ratio: spread.Spread{Median: 0.3, Low: 0.25, High: 0.4}, Bar: bar, Verdict: spread.Missed},
		{Label: "no bar", Ratio: spread.Spread{Median: 3, Low: 2, High: 5}},
		{Label: "nothing measured", Verdict: spread.Unknown, Bar: bar},
	})
}

func sampleLines() []byte {
	x := []string{"depth 1", "depth 16", "depth 32"}
	return Lines("IOPS", "reads per second", []Panel{
		{Title: "4 KiB", X: x, Series: []Series{{"spillway", []float64{10e3, 60e3, 80e3}}, {"fio", []float64{11e3, 0, 70e3}}}},
		{Title: "1 MiB", X: x, Series: []Series{{"spillway", []float64{900, 1100, 1150}}, {"fio", []float64{950, 1000, 1100}}}},
		{Title: "one point", X: x[:1], Series: []Series{{"a & b", []float64{5}}}},
		{Title: "empty"},
	})
}

func TestPictures(t *testing.T) {
	for name, picture := range map[string][]byte{
		"ratios.svg": sampleRatios(), "lines.svg": sampleLines(),
		"no-ratios.svg": Ratios("none", nil), "no-lines.svg": Lines("none", "", nil),
	} {
		charttest.CheckSVG(t, name, picture)
		if *keep != "" {
			if err := os.WriteFile(filepath.Join(*keep, name), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMarks(t *testing.T) {
	text := sampleRatios()
	for what, want := range map[string]int{"<circle": 4, `stroke-width="2" stroke="#202020"`: 3, "#dddddd": 2, colours[spread.Missed]: 2} {
		if got := bytes.Count(text, []byte(what)); got != want {
			t.Errorf("%d of %s, want %d", got, what, want)
		}
	}
	if got := bytes.Count(sampleLines(), []byte("<circle")); got != 12 {
		t.Errorf("%d points, want 12: those above 0", got)
	}
}
