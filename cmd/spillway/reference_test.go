package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The pages that this test makes from the command line itself.
const (
	referencePage = "../../docs/reference.md"
	manualPage    = "../../docs/spillway.1"
)

// TestReference fails when a page is not what the command line says; with
// -update, or go generate, it writes them anew.
func TestReference(t *testing.T) {
	for path, text := range map[string]string{referencePage: markdown(t), manualPage: manual()} {
		checkPage(t, path, text)
	}
}

// leaves are the commands that do something, in the order of the help.
func leaves() []*kong.Node { return testModel().Leaves(true) }

// optionRow is one flag or argument.
type optionRow struct{ name, value, help string }

func optionRows(n *kong.Node) (rows []optionRow) {
	for _, arg := range n.Positional {
		name := arg.Summary()
		rows = append(rows, optionRow{name, defaultOf(arg, arg.Required), arg.Help})
	}
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		switch {
		case f.IsBool():
		case f.PlaceHolder != "":
			name += "=" + f.PlaceHolder
		default:
			name += "=" + strings.ToUpper(f.Name)
		}
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		rows = append(rows, optionRow{name, defaultOf(f.Value, f.Required), f.Help})
	}
	return rows
}

func defaultOf(v *kong.Value, required bool) string {
	switch {
	case required:
		return "needed"
	case v.HasDefault:
		return v.Default
	}
	return ""
}

// markdown is the reference page.
func markdown(t *testing.T) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Reference of the command line\n\n")
	p("Made from the command line itself; `go generate ./cmd/spillway` writes it anew, and a test\nfails when it is stale. The same in short: [spillway.1](spillway.1).\n\n")
	for _, n := range leaves() {
		p("- [`%s`](#%s): %s\n", n.FullPath(), strings.ReplaceAll(n.FullPath(), " ", "-"), n.Help)
	}
	p("\n`--help` shows the help of any command.\n\n%s\n", strings.ReplaceAll(sizeRule, "\n  ", "\n"))
	p("Times are written as 30ms, 1.5s or 2m.\n\n")
	p("## Exit codes\n\nThe first that applies:\n\n| code | meaning |\n|---|---|\n")
	for _, row := range exitTable {
		p("| %d | %s |\n", row.code, cell(row.meaning))
	}
	for _, n := range leaves() {
		p("\n## %s\n\n%s\n\n```\n%s\n```\n", n.FullPath(), n.Help, "spillway "+n.Summary())
		if n.Detail != "" {
			p("\n%s\n", n.Detail)
		}
		if rows := optionRows(n); len(rows) > 0 {
			p("\n| argument or flag | default | meaning |\n|---|---|---|\n")
			for _, r := range rows {
				p("| `%s` | %s | %s |\n", cell(r.name), cell(r.value), cell(r.help))
			}
		}
	}
	p("\n## JSON\n\nWith `--json` a command prints one object a line on standard output; `inspect` prints many,\n`doctor` one for each store, all others one. Every object has a `type`. Fields are only ever added. A field marked\n*optional* may be absent.\n")
	for _, n := range leaves() {
		r, ok := n.Target.Addr().Interface().(reporter)
		if !ok {
			continue
		}
		p("\n### JSON of %s\n", n.FullPath())
		for _, report := range r.reports() {
			schema(t, &b, reflect.TypeOf(report))
		}
	}
	p("\n### JSON of an error\n\nOn standard error, with `--json`.\n")
	schema(t, &b, reflect.TypeFor[errorReport]())
	return b.String()
}

// cell makes text fit for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func schema(t *testing.T, b *strings.Builder, typ reflect.Type) {
	fmt.Fprintf(b, "\n| field | value | meaning |\n|---|---|---|\n")
	for _, f := range fieldsOf(t, typ, "") {
		value := f.value
		if f.optional {
			value += ", *optional*"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.path, value, cell(f.meaning))
	}
}

// TestEveryReport: a command takes --json if, and only if, it says what it
// prints then.
func TestEveryReport(t *testing.T) {
	for _, n := range leaves() {
		takes := false
		for _, f := range n.Flags {
			takes = takes || f.Name == "json"
		}
		if _, isFio := n.Target.Addr().Interface().(*fioCmd); isFio {
			continue // its document is fio's: see docs/fio.md
		}
		if _, says := n.Target.Addr().Interface().(reporter); takes != says {
			t.Errorf("%s: --json %t, reports %t; add a method reports", n.FullPath(), takes, says)
		}
	}
}

// checkDocumented wants every JSON line of a command to be of a type that the
// command reports, without a field that the reference does not have.
func checkDocumented(t *testing.T, args []string, stdout string) {
	t.Helper()
	parsed, err := newParser(&state{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, func(int) {}).Parse(args)
	if err != nil || parsed.Selected() == nil {
		return
	}
	r, ok := parsed.Selected().Target.Addr().Interface().(reporter)
	if !ok {
		return
	}
	for line := range strings.Lines(stdout) {
		known := false
		for _, report := range r.reports() {
			decoder := json.NewDecoder(strings.NewReader(line))
			decoder.DisallowUnknownFields()
			known = known || decoder.Decode(reflect.New(reflect.TypeOf(report)).Interface()) == nil
		}
		if !known {
			t.Errorf("%v prints what no report describes: %s", args, line)
		}
	}
}

// manual is the manual page, in roff.
func manual() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p(".\\\" Made from the command line itself: go generate ./cmd/spillway\n")
	p(".TH SPILLWAY 1 \"\" Spillway \"Spillway Manual\"\n.SH NAME\nspillway \\- %s\n", roff(lowerFirst(strings.TrimSuffix(strings.TrimPrefix(description, "Spillway "), "."))))
	p(".SH SYNOPSIS\n")
	for _, n := range leaves() {
		p(".B %s\n.br\n", roff("spillway "+n.Summary()))
	}
	p(".SH DESCRIPTION\n%s\n.PP\n%s\n", roff(description), roff(strings.ReplaceAll(sizeRule, "\n ", "")))
	p(".SH COMMANDS\n")
	for _, n := range leaves() {
		p(".SS %s\n%s\n", roff("spillway "+n.Summary()), roff(n.Help))
		if n.Detail != "" {
			p(".PP\n%s\n", roff(n.Detail))
		}
		for _, r := range optionRows(n) {
			help := r.help
			if r.value != "" && r.value != "needed" {
				help += " (" + r.value + ")"
			}
			p(".TP\n.B %s\n%s\n", roff(r.name), roff(help))
		}
	}
	p(".SH EXIT STATUS\nThe first that applies:\n")
	for _, row := range exitTable {
		p(".TP\n.B %d\n%s\n", row.code, roff(row.meaning))
	}
	return b.String()
}

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// roff escapes a line of text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.Join(strings.Fields(text), " "))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// TestManual: man has nothing to complain about.
func TestManual(t *testing.T) {
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed")
	}
	path, err := filepath.Abs(manualPage)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=100")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if _, err := cmd.Output(); err != nil || stderr.Len() > 0 {
		t.Errorf("man: %v\n%s", err, stderr.String())
	}
}
