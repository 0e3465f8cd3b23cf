package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

func TestRepository(t *testing.T) {
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tree.Files); n < 20 {
		t.Fatalf("only %d files under %s: the walk does not see the repository", n, root)
	}
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, f := range rule.Findings(tree) {
				t.Error(f)
			}
		})
	}
}

// samples name, for each rule, the exact breaches in testdata/<rule>: place
// and the start of what is said about it. Everything else there is allowed.
var samples = map[string][]string{
	"format": {"wal/spaces.go:1: not formatted"},
	"imports": {
		"client/client.go:4: client may not import cluster/node, only itself, engine/planted, cluster/wire",
		"cluster/node/node.go:6: cluster may not import wal",
		"engine/device/up.go:6: engine/device may not import engine, only itself, engine/planted",
		"engine/segment/segment.go:4: nothing may import cmd",
		"engine/table/sideways.go:4: engine/table may not import engine/evict",
		"stray/stray.go:1: this folder is no room of the house",
		"wal/wal.go:4: wal may not import engine,",
		"wal/wal.go:5: engine/device/devicetest is for tests only",
		"wal/wal.go:7: wal may not import fio",
		"wal/wal_test.go:5: wal may not import tiering",
	},
	"homes": {
		`engine/device/psync.go:4: import of "syscall" outside *_linux.go or *_unsafe.go`,
		`engine/device/psync.go:5: import of "unsafe" outside *_unsafe.go`,
		`engine/device/psync.go:7: import of "golang.org/x/sys/unix" outside *_linux.go or *_unsafe.go`,
		`engine/device/psync_linux.go:4: import of "unsafe" outside *_unsafe.go`,
		`tiering/gpu/nvml.go:3: import of "C" outside *_cgo.go`,
	},
	"length": {
		"engine/file.go:1: 301 lines, at most 300",
		"engine/function.go:3: Long has 71 lines, at most 70",
	},
	"names": {"engine/util/util.go:1: package util says nothing"},
	"atomics": {
		"engine/count.go:10: atomic.AddInt64 on a plain variable",
		"engine/renamed_test.go:5: atomic.LoadInt64 on a plain variable",
	},
	"exits": {
		"cmd/spillway/run.go:6: os.Exit outside cmd/*/main.go",
		"engine/exit.go:10: os.Exit outside cmd/*/main.go",
		"engine/exit.go:12: log.Fatalf outside cmd/*/main.go",
	},
	"comments": {
		"engine/bare.go:1: package engine has no comment",
		"engine/bare.go:9: Alone has no doc comment",
		"engine/bare.go:13: Bare has no doc comment",
		"engine/bare.go:25: Store has no doc comment",
		"engine/bare.go:30: Outer has no doc comment",
		"engine/bare.go:33: Open has no doc comment",
		"engine/bare.go:35: Close has no doc comment",
	},
	"notes": {
		"docs/notes.md:3: a note without an issue",
		"engine/notes.go:3: a note to self",
		"engine/notes.go:4: a note to self",
		"engine/notes.go:5: a note without an issue",
		"engine/notes.go:6: a note without an issue",
	},
}

func TestSamples(t *testing.T) {
	for _, rule := range Rules() {
		if rule.Name == "words" {
			continue // TestWords: a sample on disk would be a breach itself
		}
		t.Run(rule.Name, func(t *testing.T) {
			tree, err := Load(filepath.Join("testdata", rule.Name))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, rule.Findings(tree), samples[rule.Name])
		})
	}
}

func compare(t *testing.T, got []Finding, want []string) {
	t.Helper()
	if len(want) == 0 {
		t.Fatal("no sample for this rule")
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("not found: %s", want[i])
		case i >= len(want):
			t.Errorf("found too much: %s", got[i])
		case !strings.HasPrefix(got[i].String(), want[i]):
			t.Errorf("found %q, want %q", got[i], want[i])
		}
	}
}

func TestWords(t *testing.T) {
	good := []string{
		"go install example.com/tool@v1", "apt-get install gcc", "https://go.dev/dl",
		"bin/network/file", "./wo" + "rk/x", "$ROOT/wo" + "rk/x", "an agen" + "tic workload", "the framework",
	}
	bad := []string{
		"GOFLAGS= GO" + "PROXY=off", "https://proxy." + "golang.org/x", "pip install --index" + "-url x",
		"FROM docker" + ".io/debian", "https://py" + "pi.org/simple", "ghcr" + ".io/x",
		"see /wo" + "rk/main", "(/ro" + "ot/go/pkg)", "a sub" + "agent wrote this", "this work" + "place",
	}
	dir := t.TempDir()
	lines := slices.Concat(good, bad)
	if err := os.WriteFile(filepath.Join(dir, "page.md"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	for _, f := range checkWords(tree) {
		found[f.Line] = true
	}
	for i, line := range lines {
		if want := i >= len(good); found[i+1] != want {
			t.Errorf("%q: found %t, want %t", line, found[i+1], want)
		}
	}
}

func TestExemptions(t *testing.T) {
	tree, err := Load("testdata/length")
	if err != nil {
		t.Fatal(err)
	}
	got := lengths(tree, map[string]string{
		"engine/file.go":           "a table",
		"engine/function.go Limit": "not needed",
	})
	compare(t, got, []string{
		"engine/function.go:3: Long has 71 lines",
		`integration/house/shape.go:1: the exemption "engine/function.go Limit" is not needed`,
	})
}

// TestDepguard keeps the rules that editors and golangci-lint read equal to Rooms.
func TestDepguard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range Rooms() {
		if slices.Contains(room.May, anything) {
			continue // nothing to deny
		}
		if block := Depguard(room); !strings.Contains(string(text), block) {
			t.Errorf(".golangci.yml lacks the rule of %s; put it under linters.settings.depguard.rules:\n%s", room.Path, block)
		}
	}
}
