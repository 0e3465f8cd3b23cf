package gpucheck

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// behave makes the tests below do what a step may do; nothing unless a test says so.
const behave = "SPILLWAY_GPU_BEHAVE"

func TestBehaveWell(t *testing.T) {
	behaving(t)
	report(t, finding{"answer", 42, "things", "as expected"})
}

func TestBehaveBadly(t *testing.T) {
	behaving(t)
	t.Error("on purpose")
}

func TestBehaveSlowly(t *testing.T) {
	behaving(t)
	report(t, finding{Name: "before the cut"})
	time.Sleep(time.Hour)
}

func TestBehaveNot(t *testing.T) { t.Skip("there is nothing to see") }

func behaving(t *testing.T) {
	t.Helper()
	if os.Getenv(behave) == "" {
		t.Skip("a part of TestConduct")
	}
}

// TestConduct: steps that pass, fail, hang or skip each leave their line in the summary,
// with what they found, and none is begun when all time is used.
func TestConduct(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a step to be cut")
	}
	t.Setenv(behave, "1")
	dir, table := t.TempDir(), new(bytes.Buffer)
	t.Setenv(storeDir, dir)
	list := []step{{"good", "TestBehaveWell", time.Minute}, {"bad", "TestBehaveBadly", time.Minute}, {"none", "TestBehaveNot", time.Minute},
		{"slow", "TestBehaveSlowly", 10 * time.Second}, {"late", "TestBehaveWell", time.Minute}}
	r, err := conduct(t.Context(), list[:4], time.Hour, dir, table)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, summary))
	if err != nil {
		t.Fatal(err)
	}
	var kept checkReport
	if err := json.Unmarshal(text, &kept); err != nil || kept.State != failed || r.State != failed || kept.Type != "gpu_check" || len(kept.Steps) != 4 {
		t.Fatalf("%s, %v", text, err)
	}
	for i, want := range []string{passed, failed, skipped, cut} {
		if got := kept.Steps[i]; got.State != want || got.Name != list[i].name {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if f := kept.Steps[0].Findings; len(f) != 1 || f[0] != (finding{"answer", 42, "things", "as expected"}) {
		t.Errorf("%+v", f)
	}
	if f := kept.Steps[3].Findings; len(f) != 1 || f[0].Name != "before the cut" {
		t.Errorf("%+v", f)
	}
	for _, want := range []string{"answer: 42 things: as expected", "ended at its limit of 10 s", "GPU check: failed"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if r, err = conduct(t.Context(), list[4:], 0, dir, table); err != nil || r.Steps[0].State != cut || r.Steps[0].Seconds != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err = conduct(given, list[:1], time.Hour, dir, table); err != nil || r.Steps[0].State != cut {
		t.Errorf("after a signal: %+v, %v", r, err)
	}
	if !strings.Contains(table.String(), "not begun") {
		t.Errorf("%s", table)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestLimits: the whole check ends in time, and names tests that are there.
func TestLimits(t *testing.T) {
	var sum time.Duration
	for _, s := range steps {
		sum += s.limit
	}
	if sum > wholeLimit || wholeLimit >= 8*time.Minute {
		t.Errorf("limits of %v in sum, of %v", sum, wholeLimit)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, s := range steps {
		for name := range strings.SplitSeq(s.tests, "|") {
			if !strings.Contains(source.String(), "func "+name+"(t *testing.T)") {
				t.Errorf("step %s: no test %s", s.name, name)
			}
		}
	}
}
