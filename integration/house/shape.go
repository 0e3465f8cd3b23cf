package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"slices"
)

// Limits of one function and one file that is not a test.
const (
	functionLinesMax = 70
	fileLinesMax     = 300
)

// exempt lists what may be longer, as "path" or "path name", each with its
// reason. An entry that is no longer needed is a breach too.
var exempt = map[string]string{}

func checkFormat(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		if out, err := format.Source(f.Text); err != nil || !bytes.Equal(out, f.Text) {
			found = append(found, Finding{f.Path, 1, "not formatted: run make fmt"})
		}
	}
	return found
}

func checkLength(t *Tree) []Finding { return lengths(t, exempt) }

func lengths(t *Tree, exempt map[string]string) []Finding {
	var found []Finding
	used := map[string]bool{}
	report := func(file *File, line int, name, text string) {
		used[name] = true
		if exempt[name] == "" {
			found = append(found, Finding{file.Path, line, text})
		}
	}
	for f := range t.goFiles {
		if f.Test() {
			continue
		}
		if n := bytes.Count(f.Text, []byte("\n")); n > fileLinesMax {
			report(f, 1, f.Path, fmt.Sprintf("%d lines, at most %d: split the file by idea", n, fileLinesMax))
		}
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := t.line(fn.End()) - t.line(fn.Pos()) + 1; n > functionLinesMax {
				report(f, t.line(fn.Pos()), f.Path+" "+fn.Name.Name, fmt.Sprintf(
					"%s has %d lines, at most %d: keep the branches, move straight work into functions", fn.Name.Name, n, functionLinesMax))
			}
		}
	}
	for name := range exempt {
		if !used[name] {
			found = append(found, Finding{"integration/house/shape.go", 1, fmt.Sprintf("the exemption %q is not needed: remove it", name)})
		}
	}
	return found
}

// vagueNames say nothing of what a package is for.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "lib"}

func checkNames(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		if name := f.AST.Name; slices.Contains(vagueNames, name.Name) {
			found = append(found, Finding{f.Path, t.line(name.Pos()), fmt.Sprintf(
				"package %s says nothing: name the package after what it does, or move its parts to their users", name.Name)})
		}
	}
	return found
}
