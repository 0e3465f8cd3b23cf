package result

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// sample is what a real fio 3.33 wrote of one run, with all directions, as JSON+.
// Its normal text lies beside it.
const sample = "testdata/fio-3.33.json"

func readSample(t *testing.T, path string) ([]byte, *Document) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ReadJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, doc
}

// latencies calls each for all latencies of a document.
func latencies(d *Document, each func(name string, l *Latency)) {
	for i := range d.Jobs {
		j := &d.Jobs[i]
		for n, s := range []*Stats{j.Read, j.Write, j.Trim} {
			each(j.Name+" "+directionNames[n]+" slat", &s.Slat)
			each(j.Name+" "+directionNames[n]+" clat", &s.Clat)
			each(j.Name+" "+directionNames[n]+" lat", &s.Lat)
		}
		each(j.Name+" sync", &j.Sync.Lat)
	}
}

// TestReproducesFio counts the samples of fio's bins again and wants fio's own
// document back, byte for byte: percentiles and bins from our histogram, fields
// and layout from our writer.
func TestReproducesFio(t *testing.T) {
	reproduce(t, sample)
	if path := os.Getenv("SPILLWAY_FIO_JSON"); path != "" {
		reproduce(t, path)
	}
}

func reproduce(t *testing.T, path string) {
	data, doc := readSample(t, path)
	counted := 0
	latencies(doc, func(name string, l *Latency) {
		if l.N == 0 {
			return
		}
		counted++
		s := recount(l.Bins)
		if s.Count != uint64(l.N) && len(l.Bins) > 0 {
			t.Errorf("%s: %d samples in the bins, N is %d", name, s.Count, l.N)
		}
		for i, p := range l.Percentiles {
			fioNS := p.NS
			l.Percentiles[i].NS = s.FioPercentileNS(p.Percent)
			if l.Percentiles[i].NS != fioNS {
				t.Errorf("%s: P%v is %d, fio has %d", name, p.Percent, l.Percentiles[i].NS, fioNS)
			}
		}
		if len(l.Bins) > 0 {
			l.Bins = s.Bins()
		}
	})
	if counted == 0 {
		t.Fatalf("%s has no latencies", path)
	}
	var out bytes.Buffer
	if err := doc.WriteJSON(&out, true); err != nil {
		t.Fatal(err)
	}
	want := string(data[bytes.IndexByte(data, '{'):])
	if diff := firstDifference(out.String(), want); diff != "" {
		t.Errorf("%s: %s", path, diff)
	}
}

// recount records each sample of the bins at its midpoint.
func recount(bins Bins) histogram.Snapshot {
	var h histogram.Histogram
	for _, b := range bins {
		for range b.Count {
			h.Record(b.MidpointNS)
		}
	}
	return h.Snapshot()
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		line := func(all []string) string {
			if i < len(all) {
				return all[i]
			}
			return "(the end)"
		}
		if line(g) != line(w) {
			return "line " + strconv.Itoa(i+1) + ":\n  got  " + line(g) + "\n  want " + line(w)
		}
	}
	return ""
}

// TestTextLikeFio reads fio's JSON+ and wants the normal text of the same run.
func TestTextLikeFio(t *testing.T) {
	_, doc := readSample(t, sample)
	text, err := os.ReadFile(strings.TrimSuffix(sample, ".json") + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := doc.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	// What the JSON does not say.
	unsaid := regexp.MustCompile(`jobs=\d+\)|pid=\d+: .*`)
	clean := func(text string) string { return unsaid.ReplaceAllString(text, "") }
	if diff := firstDifference(clean(out.String()), clean(string(text))); diff != "" {
		t.Error(diff)
	}
}

// TestPercentilesWithinExtremes: fio's own sample has percentiles above the
// maximum; ours of the same samples have not.
func TestPercentilesWithinExtremes(t *testing.T) {
	_, doc := readSample(t, sample)
	outside := 0
	latencies(doc, func(name string, l *Latency) {
		for _, p := range l.Percentiles {
			if p.NS < *l.Min || p.NS > *l.Max {
				outside++
			}
		}
		ours := LatencyOf(recount(l.Bins), percentiles)
		last := int64(-1)
		for _, p := range ours.Percentiles {
			if p.NS < *ours.Min || p.NS > *ours.Max || p.NS < last {
				t.Errorf("%s: P%v is %d in %d..%d", name, p.Percent, p.NS, *ours.Min, *ours.Max)
			}
			last = p.NS
		}
	})
	if outside == 0 {
		t.Error("the sample shows no percentile of fio outside its extremes: find one that does")
	}
}
