package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cmd/spillway/shell"
)

// completers run a shell with the script sourced and print what completes the
// last of words, one a line.
var completers = map[string]func(script string, words []string) *exec.Cmd{
	"bash": func(script string, words []string) *exec.Cmd {
		const program = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spillway; printf '%s\n' "${COMPREPLY[@]}"`
		return exec.Command("bash", append([]string{"--noprofile", "--norc", "-c", program, "bash", script}, words...)...)
	},
	"zsh": func(script string, words []string) *exec.Cmd {
		// Completion functions work only within the line editor; these stand for it.
		const program = `compdef() { :; }; compset() { cur=${cur#*=}; }; _files() { [[ $1 == -/ ]] && print adir || print -l adir afile; }
			compadd() { shift; print -l -- "$@"; }; _describe() { local line; for line in "${(@P)@[-1]}"; do print -r -- "${line%%:*}"; done; }
			source "$1"; shift; words=("$@"); CURRENT=$#; _spillway`
		return exec.Command("zsh", append([]string{"-f", "-c", program, "zsh", script}, words...)...)
	},
	"fish": func(script string, words []string) *exec.Cmd {
		const program = `source $argv[1]; complete -C (string join -- ' ' $argv[2..-1])`
		return exec.Command("fish", append([]string{"--no-config", "-c", program, script}, words...)...)
	},
}

// TestCompletion asks each shell that is installed what may follow.
func TestCompletion(t *testing.T) {
	subs := func(path string) (names []string) {
		for _, p := range commandPaths() {
			if rest, below := strings.CutPrefix(p, path); below && rest != "" && !strings.Contains(rest, " ") {
				names = append(names, rest)
			}
		}
		return names
	}
	files := []string{"adir", "afile"}
	for _, c := range []struct {
		line string
		want []string // nil: nothing
		all  bool     // want is all, not only some
	}{
		{"spillway ", subs(""), true},
		{"spillway v", []string{"version"}, true},
		{"spillway ns ", subs("ns "), true},
		{"spillway ns q", []string{"quota"}, true},
		{"spillway -", []string{"--help"}, false},
		{"spillway ns drop --y", []string{"--yes"}, true},
		{"spillway put --ca", []string{"--capacity"}, true},
		{"spillway put --json --no", nil, true},
		{"spillway put --dir ", []string{"adir"}, true},
		{"spillway put --dir a", []string{"adir"}, true},
		{"spillway put --dir x key ", files, true},
		{"spillway put --dir x key af", []string{"afile"}, true},
		{"spillway put --json --namespace put key ", files, true},
		{"spillway put ", nil, true},
		{"spillway get -o ", files, true},
		{"spillway get --output a", files, true},
		{"spillway get key ", nil, true},
		{"spillway put --namespace ", nil, true},
		{"spillway completion ", shell.Shells, true},
		{"spillway completion z", []string{"zsh"}, true},
		{"spillway inspect ", files, true},
		{"spillway inspect a b c ", files, true},
		{"spillway inspect -- -x ", files, true},
		{"spillway doctor ", []string{"adir"}, true},
		{"spillway replay --dir x ", files, true},
	} {
		for _, name := range shell.Shells {
			t.Run(name+"/"+c.line, func(t *testing.T) {
				got := complete(t, name, strings.Split(c.line, " "))
				if c.all && strings.Join(got, " ") != strings.Join(sorted(c.want), " ") || !subset(c.want, got) {
					t.Errorf("%q is completed by %q, want %q", c.line, got, c.want)
				}
			})
		}
	}
	// Bash splits at the sign of equality.
	for line, want := range map[string]string{"spillway put --dir = a": "adir", "spillway put --dir =": "adir", "spillway put --dir = x key a": "adir afile"} {
		if got := complete(t, "bash", strings.Split(line, " ")); strings.Join(got, " ") != want {
			t.Errorf("%q is completed by %q, want %q", line, got, want)
		}
	}
	if _, err := exec.LookPath("zsh"); err == nil {
		if got := complete(t, "zsh", []string{"spillway", "put", "--dir=a"}); strings.Join(got, " ") != "adir" {
			t.Errorf("--dir=a is completed by %q in zsh", got)
		}
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func subset(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(word string) bool { return !slices.Contains(whole, word) })
}

// complete is what completes the last word, sorted, without help texts.
func complete(t *testing.T, name string, words []string) (replies []string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(name + " is not installed")
	}
	script := write(t, "script", process{t: t}.run("completion", name).want(t, exitPass, "spillway", "").stdout)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "adir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "afile"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := completers[name](script, words)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/adir", "XDG_DATA_HOME="+dir+"/adir", "LC_ALL=C")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("%s says %s", name, stderr.String())
	}
	last := words[len(words)-1]
	for line := range strings.Lines(string(out)) {
		word, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		word = strings.TrimSuffix(word, "/")
		_, value, _ := strings.Cut(last, "=")
		if word != "" && (strings.HasPrefix(word, last) || value != "" && strings.HasPrefix(word, value) || last == "=") {
			replies = append(replies, word)
		}
	}
	return sorted(replies)
}

// TestCompletionScripts: the shells themselves accept the scripts.
func TestCompletionScripts(t *testing.T) {
	for _, name := range shell.Shells {
		script := process{t: t}.run("completion", name).want(t, exitPass, "", "").stdout
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		if out, err := exec.Command(name, "-n", write(t, "script", script)).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s -n: %v\n%s", name, err, out)
		}
	}
	process{t: t}.run("completion", "tcsh").want(t, exitUsage, "", `must be one of "bash","zsh","fish"`)
	process{t: t}.run("completion").want(t, exitUsage, "", "expected")
}
