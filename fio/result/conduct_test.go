package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio"
)

// conduct runs body and wants one valid document on stdout.
func conduct(t *testing.T, run *Run, body func() error) (*Document, int, error) {
	t.Helper()
	var out bytes.Buffer
	code, err := run.Conduct(&out, Formats{Plus: true}, body)
	decoder := json.NewDecoder(bytes.NewReader(out.Bytes()))
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	if decoder.More() {
		t.Fatalf("more than one document: %s", out.Bytes())
	}
	doc, readErr := ReadJSON(out.Bytes())
	if readErr != nil {
		t.Fatal(readErr)
	}
	if doc.Spillway.ExitCode != code {
		t.Errorf("the document says exit code %d, Conduct %d", doc.Spillway.ExitCode, code)
	}
	return doc, code, err
}

func TestEveryEndIsADocument(t *testing.T) {
	verdict := func(run *Run, j fio.Judgement) {
		run.Amend(func(s *Spillway) { s.Verdict = GateOf(fio.Verdict{Judgement: j, BudgetNS: 1}, "a number") })
	}
	one := func(run *Run, outcome Outcome) {
		w := run.AddWorker(WorkerConfig{Job: "j"})
		w.Begin(0)
		w.Record(IO{Direction: Read, Outcome: outcome, Bytes: 1, DoneNS: 5})
		w.End(1e6)
	}
	for name, c := range map[string]struct {
		body func(*Run) error
		code int
		says string
	}{
		"well":               {func(*Run) error { return nil }, 0, ""},
		"error":              {func(*Run) error { return errors.New("no such drive") }, 1, "no such drive"},
		"interrupted":        {func(*Run) error { return context.Canceled }, 1, "canceled"},
		"panic":              {func(*Run) error { panic("an engine broke") }, 1, "an engine broke"},
		"panic in a worker":  {func(*Run) error { return inGoroutine(func() error { unmade[0]++; return nil }) }, 1, "nil map"},
		"pass":               {func(r *Run) error { verdict(r, fio.Pass); return nil }, 0, ""},
		"over":               {func(r *Run) error { verdict(r, fio.Over); return nil }, 3, ""},
		"cannot judge":       {func(r *Run) error { verdict(r, fio.CannotJudge); return nil }, 4, ""},
		"damage over budget": {func(r *Run) error { verdict(r, fio.Over); one(r, Damaged); return nil }, 5, ""},
		"I/O error, damage":  {func(r *Run) error { one(r, Failed); one(r, Damaged); return nil }, 1, ""},
		"only misses":        {func(r *Run) error { one(r, Missed); return nil }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run := NewRun(Config{Version: "v"}, time.Now())
			doc, code, err := conduct(t, run, func() error { return c.body(run) })
			if code != c.code || !strings.Contains(doc.Spillway.Error, c.says) || (c.says == "") != (err == nil) {
				t.Errorf("code %d, error %v, document says %q; want %d and %q", code, err, doc.Spillway.Error, c.code, c.says)
			}
		})
	}
}

func inGoroutine(f func() error) error {
	done := make(chan error)
	go func() { done <- Guard(f) }()
	return <-done
}

// unmade is a map that nobody has made: a write to it panics, as a fault of a program does.
var unmade map[int]int

// TestUsageKeepsItsCode: the caller says how an error of its own ends.
func TestUsageKeepsItsCode(t *testing.T) {
	run := NewRun(Config{ExitCode: func(error) int { return 2 }}, time.Now())
	if _, code, _ := conduct(t, run, func() error { return errors.New("no such option") }); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}

// TestNothingMeasuredIsNull: no sample, no number.
func TestNothingMeasuredIsNull(t *testing.T) {
	run := NewRun(Config{}, time.Now())
	w := run.AddWorker(WorkerConfig{Job: "j", Directions: []Direction{Read}, Clat: true, Lat: true, Slat: true, Percentiles: percentiles})
	w.Begin(0)
	w.Record(IO{Direction: Read, Outcome: Late})
	doc, _, _ := conduct(t, run, func() error { return nil })
	latencies(doc, func(name string, l *Latency) {
		if l.Min != nil || l.Max != nil || l.Mean != nil || l.Stddev != nil || l.N != 0 || l.Percentiles != nil || l.Bins != nil {
			t.Errorf("%s of nothing: %+v", name, *l)
		}
	})
	if s := doc.Jobs[0].Read; s.BWMin != nil || s.IOPSMean != nil || s.IOs != 0 || doc.Jobs[0].Spillway.Read.Late != 1 {
		t.Errorf("%+v", s)
	}
}

// TestFioToolReadsOurs lets fio's own converter read our JSON+ and compare.
func TestFioToolReadsOurs(t *testing.T) {
	const tool = "fio_jsonplus_clat2csv"
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("no %s here: it comes with fio", tool)
	}
	run, _ := sampleRun(t)
	w := run.AddWorker(WorkerConfig{Job: "w", Group: 1, Directions: []Direction{Write}, Clat: true, Percentiles: percentiles}) // null clat for reads
	w.Begin(0)
	for i := range int64(50) {
		w.Record(IO{Direction: Write, Bytes: 4096, IssuedNS: i, SubmittedNS: i + 10, DoneNS: i*i + 100})
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "ours.json")
	var out bytes.Buffer
	if err := run.Document(3e9).WriteJSON(&out, true); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{source, filepath.Join(dir, "out.csv")}, {"--validate", source, filepath.Join(dir, "out.csv")}} {
		if text, err := exec.Command(path, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, text)
		}
	}
	for name, last := range map[string][2]string{"out_job0.csv": {"read_clat_ns", "2000"}, "out_job1.csv": {"write_clat_ns", "50"}} {
		csv, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(csv)), "\n")
		at := slices.Index(strings.Split(lines[0], ", "), last[0]+"_cumulative")
		greatest := "" // the running count at the last bin of this latency
		for _, line := range lines[1:] {
			if cell := strings.Split(line, ", ")[at]; cell != "" {
				greatest = cell
			}
		}
		if greatest != last[1] {
			t.Errorf("%s counts %s samples of %s, want %s", name, greatest, last[0], last[1])
		}
	}
}
