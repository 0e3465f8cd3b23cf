package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/spillway-kv/spillway/integration/bench/spread"
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
		checkSVG(t, name, picture)
		if *keep != "" {
			if err := os.WriteFile(filepath.Join(*keep, name), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkSVG wants well-formed XML, finite coordinates, and every shape inside
// the picture.
func checkSVG(t *testing.T, name string, picture []byte) {
	t.Helper()
	var width, height float64
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range element.Attr {
			v, err := strconv.ParseFloat(a.Value, 64)
			if err != nil {
				continue // a colour, a word, a percentage
			}
			limit := math.Inf(1)
			switch a.Name.Local {
			case "width":
				if element.Name.Local == "svg" {
					width = v
				}
			case "height":
				if element.Name.Local == "svg" {
					height = v
				}
			case "x", "x1", "x2", "cx":
				limit = width
			case "y", "y1", "y2", "cy":
				limit = height
			}
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || v > limit {
				t.Errorf("%s: %s has %s=%q in a picture of %v x %v", name, element.Name.Local, a.Name.Local, a.Value, width, height)
			}
		}
	}
	if width == 0 || height == 0 {
		t.Errorf("%s has no size", name)
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
