package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	// TestDoctorHere runs this binary as another user.
	if dir := os.Getenv("SPILLWAY_TEST_DOCTOR"); dir != "" {
		st := processState()
		st.args = []string{"doctor", dir}
		os.Exit(int(run(st)))
	}
	os.Exit(membertest.Run(m))
}

// outcome is what one run of a command left.
type outcome struct {
	code           exitCode
	stdout, stderr string
}

// process is a process to run commands in.
type process struct {
	t     *testing.T
	stdin string
	tty   bool
	// hangups asks to reload.
	hangups chan struct{}
	ctx     context.Context
	now     func() time.Time
	// machine is what doctor looks at; without one the real machine.
	machine *doctor.Machine
	// gpus is what gpu looks at; without one those of this machine.
	gpus *gpuSources
	// fabric has the RDMA devices of daemons; without one those of this machine.
	fabric fabric.Fabric
}

// run runs one command in this process.
func (p process) run(args ...string) outcome {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, now := p.ctx, p.now
	if ctx == nil {
		ctx = p.t.Context()
	}
	if now == nil {
		now = time.Now
	}
	machine := doctor.This()
	if p.machine != nil {
		machine = *p.machine
	}
	gpus := theseGPUs()
	if p.gpus != nil {
		gpus = *p.gpus
	}
	code := run(&state{
		machine: machine, gpus: gpus, fabric: p.fabric, args: args, stdin: strings.NewReader(p.stdin), stdout: &stdout, stderr: &stderr, stdinTTY: p.tty, stderrTTY: p.tty,
		now:       now,
		hangups:   func() (<-chan struct{}, func()) { return p.hangups, func() {} },
		getenv:    func(string) string { return "" },
		interrupt: func(context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		buildInfo: func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "CGO_ENABLED", Value: "1"}}}, true
		},
	})
	if slices.Contains(args, "--json") {
		checkDocumented(p.t, args, stdout.String())
	}
	return outcome{code, stdout.String(), stderr.String()}
}

// want checks the exit code and that both streams contain what they must.
func (o outcome) want(t *testing.T, code exitCode, inStdout, inStderr string) outcome {
	t.Helper()
	if o.code != code || !strings.Contains(o.stdout, inStdout) || !strings.Contains(o.stderr, inStderr) {
		t.Fatalf("exit code %d, want %d\nstdout (want %q):\n%s\nstderr (want %q):\n%s", o.code, code, inStdout, o.stdout, inStderr, o.stderr)
	}
	return o
}

// object decodes stdout, which must be exactly one JSON object of this type.
func (o outcome) object(t *testing.T, wantType string) map[string]any {
	t.Helper()
	return object(t, o.stdout, wantType)
}

func object(t *testing.T, text, wantType string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	var v map[string]any
	if err := decoder.Decode(&v); err != nil || decoder.More() {
		t.Fatalf("not one JSON object (%v): %s", err, text)
	}
	if v["type"] != wantType {
		t.Fatalf("type %v, want %s", v["type"], wantType)
	}
	return v
}

// anywhere lets tests run on any file system.
func anywhere(dir string, args ...string) []string {
	return append(args, "--dir", dir, "--buffered-io", "--any-filesystem")
}

func sh(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	return process{t: t}.run(anywhere(dir, args...)...)
}

// write makes a file in a new folder.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHelp compares every help text with its golden file and wants the exit
// codes at its end.
func TestHelp(t *testing.T) {
	for _, c := range commandPaths() {
		got := process{t: t}.run(append(strings.Fields(c), "--help")...).want(t, exitPass, "Exit codes", "")
		path := filepath.Join("testdata", "help"+strings.ReplaceAll("_"+c, " ", "_")+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got.stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.stdout != string(golden) {
			t.Errorf("spillway %s --help differs from %s (go test -update writes it anew):\n%s", c, path, got.stdout)
		}
		if got.stderr != "" {
			t.Errorf("spillway %s --help says on stderr: %s", c, got.stderr)
		}
	}
}

// commandPaths lists every command and group of commands, "" first.
func commandPaths() []string {
	var paths []string
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		paths = append(paths, path)
		for _, child := range n.Children {
			walk(child, strings.TrimSpace(path+" "+child.Name))
		}
	}
	walk(testModel().Node, "")
	return paths
}

func testModel() *kong.Application {
	return newParser(&state{stdout: io.Discard, stderr: io.Discard}, func(int) {}).Model
}

func TestExitCodeTable(t *testing.T) {
	seen := map[exitCode]bool{}
	for i, row := range exitTable {
		if seen[row.code] || row.code.rank() != i {
			t.Errorf("row %d: code %d", i, row.code)
		}
		seen[row.code] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d codes, want 6", len(seen))
	}
}

func TestVersion(t *testing.T) {
	process{t: t}.run("version").want(t, exitPass, "spillway v1.2.3 (revision abc, modified)\ngo1.", "")
	process{t: t}.run("version").want(t, exitPass, fmt.Sprintf("rdma verbs %t", verbs.Built), "")
	v := process{t: t}.run("version", "--json").want(t, exitPass, "", "").object(t, "version")
	if v["version"] != "v1.2.3" || v["revision"] != "abc" || v["modified"] != true || v["cgo"] != true || v["rdma_verbs"] != verbs.Built {
		t.Errorf("got %v", v)
	}
}
