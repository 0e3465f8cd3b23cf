package house

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo runs .ci/demo against a stand-in for the binary: a verdict of the
// replay is no failure of the demo, anything else is, and the folder goes.
func TestDemo(t *testing.T) {
	tests := []struct {
		code, want int
		say        string
	}{
		{0, 0, "demo: pass"},
		{3, 0, "demo: over budget"},
		{4, 0, "demo: cannot judge"},
		{1, 1, "demo: failed with exit code 1"},
		{2, 2, "demo: failed with exit code 2"},
		{5, 5, "demo: failed with exit code 5"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.code), func(t *testing.T) {
			dir := t.TempDir()
			fake, seen := filepath.Join(dir, "fake"), filepath.Join(dir, "seen")
			script := fmt.Sprintf("#!/bin/sh\necho \"$@\" > %s\nwhile [ $1 != --dir ]; do shift; done\nmkdir $2\nexit %d\n", seen, test.code)
			if err := os.WriteFile(fake, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(filepath.Join(root, ".ci/demo"), fake, "1s").CombinedOutput()
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != test.want {
				t.Errorf("exit code %d, want %d", code, test.want)
			}
			if !strings.Contains(string(out), test.say) {
				t.Errorf("output lacks %q:\n%s", test.say, out)
			}
			args, err := os.ReadFile(seen)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(args), "--dir ")
			store, _, _ := strings.Cut(rest, " ")
			if _, err := os.Stat(filepath.Dir(store)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the demo's folder is still there: %s, %v", store, err)
			}
		})
	}
}
