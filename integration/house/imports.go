package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Room is a folder of packages and the folders of ours its code may import.
// Both mean the folder and everything below it; where rooms nest, the longest
// path rules. A room may always import itself and engine/planted.
type Room struct {
	Path string
	May  []string
}

// anything, as an entry of Room.May, stands for the whole repository.
const anything = "."

// planted is the one leaf that every room may import.
const planted = "engine/planted"

// Rooms is the direction of imports, from the bottom up. The depguard rules in
// .golangci.yml repeat it, and a test compares the two.
func Rooms() []Room {
	return []Room{
		{planted, nil},
		{"fio/units", nil},
		{"engine/machine", nil},
		{"engine/offheap", nil},
		{"engine/histogram", nil},
		{"engine/evict", []string{"engine/offheap"}},
		{"engine/table", []string{"engine/offheap"}},
		{"engine/frame", []string{"engine/offheap"}},
		{"engine/device", nil},
		{"wal", []string{"engine/device"}},
		{"engine", []string{"wal"}},
		{"tiering", []string{"engine"}},
		{"cluster", []string{"tiering", "engine"}},
		{"client", []string{"cluster/wire"}},
		{"fio", []string{"client", "cluster", "tiering", "engine"}},
		{"cmd", []string{anything}},
		{"integration", []string{anything}},
	}
}

func within(pkg, dir string) bool {
	return dir == anything || pkg == dir || strings.HasPrefix(pkg, dir+"/")
}

// roomOf is the room that rules pkg, false if none does.
func roomOf(pkg string) (Room, bool) {
	var best Room
	for _, r := range Rooms() {
		if within(pkg, r.Path) && len(r.Path) > len(best.Path) {
			best = r
		}
	}
	return best, best.Path != ""
}

func (r Room) mayImport(pkg string) bool {
	if pkg == planted || within(pkg, r.Path) {
		return true
	}
	for _, dir := range r.May {
		if within(pkg, dir) {
			return true
		}
	}
	return false
}

func checkImports(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		room, known := roomOf(f.Dir())
		if !known {
			found = append(found, Finding{f.Path, 1,
				"this folder is no room of the house: put the package into one, or add the room to Rooms in integration/house/imports.go"})
			continue
		}
		for _, spec := range f.AST.Imports {
			if text := badImport(f, room, importPath(spec)); text != "" {
				found = append(found, Finding{f.Path, t.line(spec.Pos()), text})
			}
		}
	}
	return found
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser accepted it
	return p
}

// badImport says what is wrong with f importing p, "" if nothing is.
func badImport(f *File, room Room, p string) string {
	pkg, ours := strings.CutPrefix(p, Module+"/")
	switch {
	case !ours:
		return ""
	case within(pkg, "cmd") && room.Path != "cmd":
		return "nothing may import cmd: move what is shared into a library package"
	case testKit(pkg) && !f.Test() && !testKit(f.Dir()):
		return fmt.Sprintf("%s is for tests only: import it from a _test.go file", pkg)
	case !room.mayImport(pkg):
		return fmt.Sprintf("%s may not import %s, only %s: move the shared part down, or let the caller pass it in",
			room.Path, pkg, allowed(room))
	}
	return ""
}

// testKit reports whether pkg is a package that ships tests (devicetest, ...).
func testKit(pkg string) bool {
	base := path.Base(pkg)
	return strings.HasSuffix(base, "test") && base != "test"
}

func allowed(room Room) string {
	list := append([]string{"itself", planted}, room.May...)
	return strings.Join(list, ", ")
}

// Depguard renders the rule of one room for .golangci.yml. A room that may
// import anything needs none.
func Depguard(room Room) string {
	var b strings.Builder
	fmt.Fprintf(&b, "        %s:\n", strings.ReplaceAll(room.Path, "/", "-"))
	fmt.Fprintf(&b, "          list-mode: lax\n          files:\n            - \"**/%s/**\"\n", room.Path)
	b.WriteString("          allow:\n")
	// depguard's search misses an entry when another one lies below it.
	dirs := append([]string{room.Path}, room.May...)
	if !slices.ContainsFunc(dirs, func(dir string) bool { return within(planted, dir) }) {
		dirs = append(dirs, planted)
	}
	for _, dir := range dirs {
		fmt.Fprintf(&b, "            - %s/%s\n", Module, dir)
	}
	fmt.Fprintf(&b, "          deny:\n            - pkg: %s\n              desc: only %s\n", Module, allowed(room))
	return b.String()
}
