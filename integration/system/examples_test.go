package system

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
)

// shrunk makes an example job short and small: the same jobs, in a second.
func shrunk(text string) string {
	for _, change := range [][2]string{
		{`(?m)^size=.*$`, "size=32MiB"},
		{`(?m)^capacity=.*$`, "capacity=512MiB"},
		{`(?m)^runtime=.*$`, "runtime=400ms"},
		{`(?m)^ramp_time=.*$`, "ramp_time=50ms"},
		{`(?m)^steadystate_duration=.*$`, "steadystate_duration=2s"},
		{`(?m)^steadystate_ramp_time=.*$`, "steadystate_ramp_time=0"},
		{`(?m)^chat_think=.*$`, "chat_think=0"},
		{`(?m)^trace_speed=.*$`, "trace_speed=0"},
	} {
		text = regexp.MustCompile(change[0]).ReplaceAllString(text, change[1])
	}
	return text
}

// TestExamples runs every example job, shrunk, by the real binary: each job does
// something, and nothing fails.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../docs/examples/fio/*.fio")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	if p, err := device.Probe(t.TempDir()); err != nil || !p.Allowed {
		t.Skipf("%s is on %s: %v", t.TempDir(), p.Facts.FileSystem, err)
	}
	d := newDaemon(t)
	d.start()
	d.dial(t).Close()
	for _, name := range []string{"SOCKET", "OWNER", "ASKER"} { // a pool of one: its own other node
		t.Setenv(name, d.socket)
	}
	t.Setenv("TRACE", smallTrace(t))
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("DIR", dir)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "example.fio")
			writeFile(t, file, []byte(shrunk(string(text))))
			o := run(t, nil, "fio", file, "--output-format=json", "--quiet").want(t, 0)
			checkExample(t, o.stdout, strings.Count(string(text), "\n[")-strings.Count(string(text), "\n[global]"))
		})
	}
	d.stop()
}

// smallTrace is one in Mooncake's format, whose requests come back to earlier ones.
func smallTrace(t *testing.T) (path string) {
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, `{"timestamp": %d, "input_length": 2048, "output_length": 10, "hash_ids": [0, %d, %d, %d]}`+"\n", i*100, i%7, 100+i%20, 1000+i)
	}
	path = filepath.Join(t.TempDir(), "trace.jsonl")
	writeFile(t, path, []byte(lines.String()))
	return path
}

// checkExample wants so many jobs, all of which did something.
func checkExample(t *testing.T, stdout string, jobs int) {
	t.Helper()
	type side struct {
		Total int64 `json:"total_ios"`
	}
	var document struct {
		Jobs []struct {
			Name        string `json:"jobname"`
			Error       int
			Read, Write side
		}
	}
	if err := json.Unmarshal([]byte(stdout), &document); err != nil {
		t.Fatalf("%v:\n%s", err, stdout)
	}
	if len(document.Jobs) < jobs && !strings.Contains(stdout, "group_reporting") {
		t.Errorf("%d jobs, want %d", len(document.Jobs), jobs)
	}
	for _, j := range document.Jobs {
		if j.Error != 0 || j.Read.Total+j.Write.Total == 0 {
			t.Errorf("job %s: %+v", j.Name, j)
		}
	}
}
