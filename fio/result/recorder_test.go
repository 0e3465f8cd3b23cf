package result

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

func sampleRun(t *testing.T) (*Run, []*Recorder) {
	t.Helper()
	run := NewRun(Config{Version: "spillway-test", GlobalOptions: Options{{"bs", "16k"}}}, time.Unix(1000, 0))
	var all []*Recorder
	for range 2 {
		w := run.AddWorker(WorkerConfig{Job: "r", Grouped: true, Depth: 4, Directions: []Direction{Read}, Clat: true, Lat: true, Percentiles: percentiles})
		w.Begin(0)
		for i := range int64(1000) {
			w.Submit(1, 4)
			at := i * 2e6
			w.Record(IO{Direction: Read, Bytes: 16 << 10, IssuedNS: at, SubmittedNS: at + 1000, DoneNS: at + 100_000 + i})
			w.Complete(1)
		}
		w.Record(IO{Direction: Read, Outcome: Missed})
		w.End(2e9)
		all = append(all, w)
	}
	return run, all
}

func TestDocumentIsValidJSON(t *testing.T) {
	run, _ := sampleRun(t)
	var out bytes.Buffer
	doc := run.Document(2e9)
	if err := doc.WriteJSON(&out, true); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out.Bytes()) {
		t.Fatalf("not JSON: %s", out.Bytes())
	}
	if len(doc.Jobs) != 1 || doc.Jobs[0].Read.IOs != 2000 || doc.Jobs[0].Spillway.Read.Missed != 2 {
		t.Fatalf("%s", out.Bytes())
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	_, workers := sampleRun(t)
	w := workers[0]
	at := int64(0)
	n := testing.AllocsPerRun(1000, func() {
		at += 1e9 // over the end of the series
		w.Submit(1, 1)
		w.Record(IO{Direction: Read, Bytes: 4096, IssuedNS: at, SubmittedNS: at + 1, DoneNS: at + 2})
		w.Complete(1)
	})
	if n != 0 {
		t.Errorf("%v allocations an I/O", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	w := newRecorder(WorkerConfig{})
	w.Begin(0)
	for i := range int64(b.N) {
		at := i * 1000
		w.Record(IO{Direction: Read, Bytes: 4096, IssuedNS: at, SubmittedNS: at + 1000, DoneNS: at + 100_000 + i&4095})
	}
}

// percentiles are fio's default list.
var percentiles = []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99}
