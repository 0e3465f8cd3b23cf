package job_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
)

//go:generate go test -run ^TestPage$ -update .

var update = flag.Bool("update", false, "write docs/fio.md anew")

const (
	page        = "../../docs/fio.md"
	examplesDir = "../../docs/examples/fio"
)

// TestPage fails when the options of the page are not those of the table, or its
// examples not those of the folder; with -update it writes them anew.
func TestPage(t *testing.T) {
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "go generate ./fio/job` writes them anew -->\n", "<!-- options: end -->"
	before, rest, ok := strings.Cut(string(was), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its marks", page)
	}
	now := before + begin + "\n" + job.UnitRule + "\n\n" + job.Reference() + refusedText() + examplesText(t) + end + after
	if *update {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if now != string(was) {
		t.Errorf("%s is stale: go generate ./fio/job writes it anew", page)
	}
}

// refusedText groups fio's other options by what to use in their place.
func refusedText() string {
	byReason := map[string][]string{}
	for name, reason := range job.Refused() {
		byReason[reason] = append(byReason[reason], "`"+name+"`")
	}
	var b strings.Builder
	b.WriteString("### Options of fio that are refused\n\n| options | why, or what to use |\n|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(slices.Sorted(slices.Values(byReason[reason])), ", "), reason)
	}
	return b.String() + "\n"
}

// examples are the example jobs, by file.
func examples(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(examplesDir + "/*.fio")
	if err != nil || len(files) < 10 {
		t.Fatalf("examples %q, %v", files, err)
	}
	return files
}

// examplesText lists the examples by their first line.
func examplesText(t *testing.T) string {
	var b strings.Builder
	b.WriteString("## Examples\n\nRun from the root of the source; each says how.\n\n")
	for _, path := range examples(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		name := filepath.Base(path)
		fmt.Fprintf(&b, "- [%s](examples/fio/%s): %s\n", name, name, strings.TrimPrefix(first, "; "))
	}
	return b.String() + "\n"
}

// TestExamples parses every example, which begins with a line on what it is for.
func TestExamples(t *testing.T) {
	for name, value := range map[string]string{"DIR": "/dir", "TRACE": "/trace.jsonl", "SOCKET": "/socket", "OWNER": "/a", "ASKER": "/b"} {
		t.Setenv(name, value)
	}
	for _, path := range examples(t) {
		run, err := job.Parse([]string{path}, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(run.Notes) > 0 {
			t.Errorf("%s: %q", path, run.Notes)
		}
		if text, _ := os.ReadFile(path); !strings.HasPrefix(string(text), "; ") || !strings.Contains(string(text), "spillway fio ") {
			t.Errorf("%s does not say what it is for, or how it is run", path)
		}
	}
}
