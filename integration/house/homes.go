package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A home is the part of a file's name that admits an import: ring_unsafe.go may
// import unsafe, open_linux.go may make system calls.
var homes = map[string][]string{
	"unsafe":                {"unsafe"},
	"syscall":               {"linux", "unsafe"},
	"golang.org/x/sys/unix": {"linux", "unsafe"},
	"C":                     {"cgo"},
}

// checkHomes keeps unsafe code, system calls (with their errno constants) and
// cgo in files whose names say so. Tests are free, except for cgo, which the
// compiler refuses there anyway.
func checkHomes(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		if f.Test() {
			continue
		}
		for _, spec := range f.AST.Imports {
			p := importPath(spec)
			wanted, banned := homes[p]
			if !banned || livesIn(f.Path, wanted) {
				continue
			}
			found = append(found, Finding{f.Path, t.line(spec.Pos()), fmt.Sprintf(
				"import of %q outside %s: move the code into such a file, behind a plain Go function", p, fileNames(wanted))})
		}
	}
	return found
}

// livesIn reports whether one of the wanted words is a part of the file's name
// after the first underscore.
func livesIn(name string, wanted []string) bool {
	parts := strings.Split(strings.TrimSuffix(path.Base(name), ".go"), "_")
	return slices.ContainsFunc(parts[1:], func(part string) bool { return slices.Contains(wanted, part) })
}

func fileNames(wanted []string) string {
	names := make([]string, len(wanted))
	for i, w := range wanted {
		names[i] = "*_" + w + ".go"
	}
	return strings.Join(names, " or ")
}
