// Package house checks the rules of the repository that the compiler does not
// know: which way imports run, where unsafe code and system calls may live, how
// long a function may be, which words are banned. Its tests fail on the first
// breach and every message says what to do instead. The rules themselves are
// proven on the small bad trees in testdata.
package house

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Module is the import path of the repository's root.
const Module = "github.com/spillway-kv/spillway"

// textBytesMax is the size above which a file counts as data, not as text.
const textBytesMax = 1 << 20

// Finding is one breach of a rule.
type Finding struct {
	Path string // relative to the root, with slashes
	Line int
	Text string // what is wrong and what to do instead
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text) }

// Rule is one named check over the whole tree.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Findings are the breaches of the rule in t, by file and line.
func (r Rule) Findings(t *Tree) []Finding {
	found := r.Check(t)
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), strings.Compare(a.Text, b.Text))
	})
	return found
}

// Rules lists every rule of the house.
func Rules() []Rule {
	return []Rule{
		{"format", checkFormat},
		{"imports", checkImports},
		{"homes", checkHomes},
		{"length", checkLength},
		{"names", checkNames},
		{"atomics", checkAtomics},
		{"exits", checkExits},
		{"comments", checkComments},
		{"notes", checkNotes},
		{"words", checkWords},
	}
}

// File is one text file; AST is nil unless it is Go source outside testdata.
type File struct {
	Path string // relative to the root, with slashes
	Text []byte
	AST  *ast.File
}

// Dir is the folder of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test reports whether the file is compiled for tests only.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Tree holds the text files of one repository.
type Tree struct {
	Fset  *token.FileSet
	Files []*File
}

// Load reads every text file under root. It passes over .git, build outputs and
// nested modules.
func Load(root string) (*Tree, error) {
	tree := &Tree{Fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if foreign(name, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.Contains(outputs, rel) || !entry.Type().IsRegular() || path.Base(rel) == "go.sum" {
			return nil
		}
		return tree.add(name, rel)
	})
	return tree, err
}

// outputs are names at the root that are no part of the repository.
var outputs = []string{".git", "bin", "shared"}

// foreign reports whether a folder holds nothing to check.
func foreign(name, rel string) bool {
	if rel == "." {
		return false
	}
	if slices.Contains(outputs, rel) || strings.HasPrefix(rel, ".demo-") {
		return true
	}
	// The tools' module is ours to read; any other nested module is not.
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return err == nil && rel != ".ci/tools"
}

func (t *Tree) add(name, rel string) error {
	info, err := os.Stat(name)
	if err != nil || info.Size() > textBytesMax {
		return err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	file := &File{Path: rel, Text: text}
	if strings.HasSuffix(rel, ".go") && !inTestdata(rel) {
		file.AST, err = parser.ParseFile(t.Fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s does not parse: %w", rel, err)
		}
	}
	t.Files = append(t.Files, file)
	return nil
}

func inTestdata(rel string) bool {
	return slices.Contains(strings.Split(rel, "/"), "testdata")
}

// goFiles yields the parsed Go files.
func (t *Tree) goFiles(yield func(*File) bool) {
	for _, f := range t.Files {
		if f.AST != nil && !yield(f) {
			return
		}
	}
}

func (t *Tree) line(pos token.Pos) int { return t.Fset.Position(pos).Line }
