package gpucheck

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step is a part of the check: tests that run in a process of their own, so that it
// can be ended when it takes too long, and what it breaks in the driver breaks nothing
// else.
type step struct {
	name  string
	tests string // their names, with | between
	limit time.Duration
}

// steps are the whole check. Their limits sum up to less than wholeLimit.
var steps = []step{
	{"facts", "TestFacts|TestMonitor", 20 * time.Second},
	{"driver", "TestDriver", 40 * time.Second},
	{"shared memory", "TestPins|TestReadOnly|TestStraddle|TestSecondProcess", 100 * time.Second},
	{"copies", "TestSpeed|TestBothWays|TestLatency", 60 * time.Second},
	{"disk to GPU", "TestPipeline", 60 * time.Second},
	{"decode", "TestDecode", 120 * time.Second},
	{"gate", "TestGate", 60 * time.Second},
}

const (
	wholeLimit = 470 * time.Second
	summary    = "gpu-check.json"
)

// The states of a step.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
	cut     = "cut" // it took too long
)

// finding is something that a step found out.
type finding struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Text  string  `json:"text,omitempty"` // in place of a value, or what to know about it
}

// stepReport is what became of a step.
type stepReport struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Seconds  float64   `json:"seconds"`
	LimitS   float64   `json:"limit_s"`
	Findings []finding `json:"findings"`
}

// checkReport is the file gpu-check.json.
type checkReport struct {
	Type    string       `json:"type"`    // gpu_check
	Started time.Time    `json:"started"` // UTC
	Seconds float64      `json:"seconds"`
	State   string       `json:"state"` // passed if no step failed or was cut
	Steps   []stepReport `json:"steps"`
}

// conduct runs the steps one after the other, each within its limit and all within
// whole, and leaves the report in a folder and, as a table, in w.
func conduct(ctx context.Context, list []step, whole time.Duration, dir string, w io.Writer) (*checkReport, error) {
	r := &checkReport{Type: "gpu_check", Started: time.Now().UTC().Truncate(time.Second), State: passed}
	start := time.Now()
	for _, s := range list {
		limit := max(0, min(s.limit, whole-time.Since(start)))
		done := stepReport{Name: s.name, State: cut, LimitS: limit.Seconds()}
		if limit > 0 && ctx.Err() == nil {
			var err error
			if done, err = s.run(ctx, limit, dir, w); err != nil {
				return nil, err
			}
		}
		if done.State == failed || done.State == cut {
			r.State = failed
		}
		r.Steps = append(r.Steps, done)
	}
	r.Seconds = time.Since(start).Seconds()
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, summary), append(text, '\n'), 0o644)
	}
	return r, errors.Join(err, r.table(w))
}

func (s step) run(ctx context.Context, limit time.Duration, dir string, w io.Writer) (done stepReport, err error) {
	fmt.Fprintf(w, "=== step %s, at most %.0f s\n", s.name, limit.Seconds())
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stores, err := os.MkdirTemp(cmp.Or(os.Getenv(storeDir), "."), "gpucheck")
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(stores) // the step's own removal may have been cut
	results := filepath.Join(dir, "."+summary+".step")
	defer os.Remove(results)
	_ = os.Remove(results) // of a check that was killed
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.count=1", "-test.run=^("+s.tests+")$")
	cmd.Env = append(os.Environ(), stepResults+"="+results, outDir+"="+dir, storeDir+"="+stores,
		fmt.Sprintf("%s=%d", stepEnds, time.Now().Add(limit).UnixMilli()))
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(w, &out)
	cmd.Stderr = cmd.Stdout
	inGroup(cmd)
	start := time.Now()
	err = cmd.Run()
	done = stepReport{Name: s.name, State: passed, Seconds: time.Since(start).Seconds(), LimitS: limit.Seconds(), Findings: []finding{}}
	switch {
	case ctx.Err() != nil:
		done.State = cut
	case err != nil:
		done.State = failed
	case !strings.Contains(out.String(), "--- PASS"):
		done.State = skipped
	}
	if text, err := os.ReadFile(results); err == nil {
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var one finding
			if d.Decode(&one) != nil {
				break // the end, or half a line of a step that was cut
			}
			done.Findings = append(done.Findings, one)
		}
	}
	return done, nil
}

// table is the report for people.
func (r *checkReport) table(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "\n=== GPU check: %s in %.0f s\n", r.State, r.Seconds)
	for _, s := range r.Steps {
		fmt.Fprintf(out, "%-14s %-8s %5.1f s", s.Name, s.State, s.Seconds)
		switch {
		case s.State != cut:
		case s.Seconds == 0:
			fmt.Fprint(out, ": not begun, for want of time or after a signal")
		case s.Seconds < s.LimitS:
			fmt.Fprint(out, ": ended by a signal; what it found until then follows")
		default:
			fmt.Fprintf(out, ": ended at its limit of %.0f s; what it found until then follows", s.LimitS)
		}
		fmt.Fprintln(out)
		for _, one := range s.Findings {
			fmt.Fprintf(out, "    %s\n", one)
		}
	}
	return out.Flush()
}

func (r finding) String() string {
	text := r.Name
	if r.Unit != "" {
		text += fmt.Sprintf(": %.4g %s", r.Value, r.Unit)
	}
	if r.Text != "" {
		text += ": " + r.Text
	}
	return text
}

// report logs a result, and hands it to the summary of the check.
func report(t *testing.T, r finding) {
	t.Helper()
	t.Logf("INFO %s", r)
	path := os.Getenv(stepResults)
	if path == "" {
		return
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Write(append(text, '\n')); errors.Join(err, f.Close()) != nil {
		t.Fatal(err)
	}
}

// output is the folder for what the check leaves behind.
func output(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(outDir); dir != "" {
		return dir
	}
	return t.TempDir()
}
