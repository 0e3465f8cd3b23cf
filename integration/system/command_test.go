package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/integration/load"
)

// Exit codes of spillway, as its help lists them.
const (
	exitPass   = 0
	exitError  = 1
	exitUsage  = 2
	exitDamage = 5
)

// hangLimit ends a process that hangs, so that the test says which. It is far
// above what any of them needs.
const hangLimit = 5 * time.Minute

// outcome is how a process ended.
type outcome struct {
	args           []string
	code           int
	stdout, stderr string
}

// run runs spillway to its end with data on its standard input.
func run(t *testing.T, stdin []byte, args ...string) outcome {
	t.Helper()
	return runCommand(t, stdin, spillway, args...)
}

func runCommand(t *testing.T, stdin []byte, name string, args ...string) outcome {
	t.Helper()
	o, err := execute(t.Context(), stdin, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// execute runs a program to its end; an exit code is no error.
func execute(ctx context.Context, stdin []byte, name string, args ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, hangLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	o := outcome{args: args, stdout: stdout.String(), stderr: stderr.String()}
	if cmd.ProcessState != nil {
		o.code = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return o, fmt.Errorf("%s %s: %w %w\n%s", name, strings.Join(args, " "), err, ctx.Err(), o.stderr)
	}
	return o, nil
}

// want checks the exit code and that every text occurs on standard error.
func (o outcome) want(t *testing.T, code int, texts ...string) outcome {
	t.Helper()
	if o.code != code {
		t.Errorf("spillway %s: exit code %d, want %d\n%s%s", strings.Join(o.args, " "), o.code, code, o.stdout, o.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(o.stderr, text) {
			t.Errorf("spillway %s: standard error lacks %q:\n%s", strings.Join(o.args, " "), text, o.stderr)
		}
	}
	if strings.Contains(o.stderr, "panic:") || strings.Contains(o.stderr, "goroutine ") {
		t.Errorf("spillway %s crashed:\n%s", strings.Join(o.args, " "), o.stderr)
	}
	return o
}

// object is the JSON object on standard output.
func (o outcome) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(o.stdout), &v); err != nil {
		t.Fatalf("spillway %s: %v in %q\n%s", strings.Join(o.args, " "), err, o.stdout, o.stderr)
	}
	return v
}

// wantNumbers checks numbers of a JSON object, in the order name, value.
func wantNumbers(t *testing.T, v map[string]any, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		if got, want := fmt.Sprint(v[name]), fmt.Sprint(float64(pairs[i+1].(int))); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// anywhere are the flags that let a store lie on any file system.
var anywhere = []string{"--buffered-io", "--any-filesystem"}

// onDir are the arguments of a command on a store that may lie anywhere.
func onDir(dir, command string, args ...string) []string {
	all := append([]string{command, "--dir", dir}, anywhere...)
	return append(all, args...)
}

// block is the content of key number n, first version.
func block(n uint64, bytes int) []byte {
	b := make([]byte, bytes)
	load.Fill(b, load.Block{Key: n, Version: 1})
	return b
}

// requireTools skips the test where one is missing or nothing can be mounted.
func requireTools(t *testing.T, tools ...string) {
	t.Helper()
	if unmountable != "" {
		t.Skip(unmountable)
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

// shell runs a command that must succeed.
func shell(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// countLines counts the lines that contain text.
func countLines(all, text string) (n int) {
	for line := range strings.Lines(all) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
