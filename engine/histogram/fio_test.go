package histogram

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// fioLatency is one latency object of fio's JSON+ output.
type fioLatency struct {
	Name       string            `json:"name"`
	Min        int64             `json:"min"`
	Max        int64             `json:"max"`
	Mean       float64           `json:"mean"`
	N          uint64            `json:"N"`
	Percentile map[string]int64  `json:"percentile"`
	Bins       map[string]uint64 `json:"bins"`
}

// TestFioExtract compares with three latency objects of a real fio 3.33.
func TestFioExtract(t *testing.T) {
	data, err := os.ReadFile("testdata/fio-latencies.json")
	if err != nil {
		t.Fatal(err)
	}
	var latencies []fioLatency
	if err := json.Unmarshal(data, &latencies); err != nil {
		t.Fatal(err)
	}
	if len(latencies) != 3 {
		t.Fatalf("%d latency objects, want 3", len(latencies))
	}
	for _, l := range latencies {
		t.Run(l.Name, func(t *testing.T) { checkFio(t, l) })
	}
}

// TestFioOutput compares with a whole JSON+ output, named in the environment.
func TestFioOutput(t *testing.T) {
	path := os.Getenv("SPILLWAY_FIO_JSON")
	if path == "" {
		t.Skip("SPILLWAY_FIO_JSON names no output of fio --output-format=json+")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var output struct {
		Jobs []map[string]json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(data[bytes.IndexByte(data, '{'):], &output); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for i, job := range output.Jobs {
		for _, direction := range []string{"read", "write", "trim"} {
			var stats map[string]json.RawMessage
			if err := json.Unmarshal(job[direction], &stats); err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"slat_ns", "clat_ns", "lat_ns"} {
				var l fioLatency
				if err := json.Unmarshal(stats[kind], &l); err != nil {
					t.Fatal(err)
				}
				if len(l.Bins) > 0 {
					checked++
					t.Run(strconv.Itoa(i)+" "+direction+" "+kind, func(t *testing.T) { checkFio(t, l) })
				}
			}
		}
	}
	if checked == 0 {
		t.Fatal("no latency object with bins")
	}
}

func checkFio(t *testing.T, l fioLatency) {
	var h Histogram
	for key, n := range l.Bins {
		mid, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := midpointOf(indexOf(mid)); got != mid {
			t.Errorf("fio has a bin at %d, we at %d", mid, got)
		}
		h.buckets[indexOf(mid)].Add(n)
		h.sumNS.Add(uint64(mid) * n)
	}
	raise(&h.maxNS, l.Max)
	raise(&h.minInverse, latencyMaxNS-l.Min)
	s := h.Snapshot()
	if s.Count != l.N {
		t.Errorf("%d latencies in the bins, fio counts %d", s.Count, l.N)
	}
	if off := math.Abs(s.MeanNS/l.Mean - 1); off > 0.0079 {
		t.Errorf("mean %.0f, fio has %.0f", s.MeanNS, l.Mean)
	}
	for i, end := range map[int]int64{0: l.Min, len(l.Bins) - 1: l.Max} {
		if got := s.Bins()[i].MidpointNS; got != midpointOf(indexOf(end)) {
			t.Errorf("bin %d at %d, but fio's extreme is %d", i, got, end)
		}
	}
	for key, fioNS := range l.Percentile {
		p, err := strconv.ParseFloat(key, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.FioPercentileNS(p); got != fioNS {
			t.Errorf("P%v is %d, fio has %d", p, got, fioNS)
		}
		if got, want := s.PercentileNS(p), min(max(fioNS, l.Min), l.Max); got != want {
			t.Errorf("P%v is %d, want fio's value within its extremes, %d", p, got, want)
		}
	}
}
