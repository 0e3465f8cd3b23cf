package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// uses calls visit for every selector (pkg.Name) of the package with import
// path p in file f, dot imports excepted.
func uses(f *File, p string, visit func(*ast.SelectorExpr)) {
	name := ""
	for _, spec := range f.AST.Imports {
		if importPath(spec) == p {
			name = path.Base(p)
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	if name == "" {
		return
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
				visit(sel)
			}
		}
		return true
	})
}

var atomicTypes = []string{"Bool", "Int32", "Int64", "Pointer", "Uint32", "Uint64", "Uintptr", "Value"}

// checkAtomics wants the types of sync/atomic: a field of such a type cannot
// also be read without the atomic operation.
func checkAtomics(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		uses(f, "sync/atomic", func(sel *ast.SelectorExpr) {
			if !slices.Contains(atomicTypes, sel.Sel.Name) {
				found = append(found, Finding{f.Path, t.line(sel.Pos()), fmt.Sprintf(
					"atomic.%s on a plain variable: use a typed atomic (atomic.Int64, atomic.Pointer[T], ...)", sel.Sel.Name)})
			}
		})
	}
	return found
}

// exits are the calls that end the process, by package.
var exits = map[string]func(string) bool{
	"os":                    func(name string) bool { return name == "Exit" },
	"syscall":               func(name string) bool { return name == "Exit" },
	"golang.org/x/sys/unix": func(name string) bool { return name == "Exit" },
	"log":                   func(name string) bool { return strings.HasPrefix(name, "Fatal") },
}

// checkExits lets only main.go of a command, or of a program of the integration
// tests, end the process. Tests may: some of them are the victim of a kill.
func checkExits(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		if f.Test() || programMain(f) {
			continue
		}
		for p, ends := range exits {
			uses(f, p, func(sel *ast.SelectorExpr) {
				if ends(sel.Sel.Name) {
					found = append(found, Finding{f.Path, t.line(sel.Pos()), fmt.Sprintf(
						"%s.%s outside cmd/*/main.go: return an error, the caller decides", path.Base(p), sel.Sel.Name)})
				}
			})
		}
	}
	return found
}

// programMain reports whether f is the main.go of a program.
func programMain(f *File) bool {
	return path.Base(f.Path) == "main.go" && f.AST.Name.Name == "main" && (within(f.Dir(), "cmd") || within(f.Dir(), "integration"))
}
