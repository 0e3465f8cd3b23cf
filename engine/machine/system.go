// Package machine reads facts about the machine from /proc and /sys: drives,
// mounts, processors, memory, the kernel.
//
// Nothing here fails: what cannot be read is "" or -1, since each kernel and each
// container tells less than all of it.
package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// System is where facts come from. Paths are relative to Root, which is / for the
// machine itself.
type System struct{ Root string }

// This is the machine that the process runs on.
func This() System { return System{"/"} }

// Text is a file's content without the space around it, "" if it cannot be read.
func (s System) Text(path ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{s.Root}, path...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Number is a file's whole number, -1 if it has none.
func (s System) Number(path ...string) int64 {
	n, err := strconv.ParseInt(s.Text(path...), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Exists reports whether there is something at path.
func (s System) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(s.Root, path))
	return err == nil
}

// Field is the rest of the first line that starts with name, "" without one.
func (s System) Field(path, name string) string {
	for line := range strings.Lines(s.Text(path)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// List names the entries of a folder.
func (s System) List(path ...string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(append([]string{s.Root}, path...)...))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// real resolves a link of sysfs; the result is below the root and starts
// without it. It is "" for nothing.
func (s System) real(path ...string) string {
	root, err := filepath.EvalSymlinks(s.Root)
	if err != nil {
		return ""
	}
	full, err := filepath.EvalSymlinks(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(root, full)
	if err != nil || strings.HasPrefix(rel, "..") {
		return ""
	}
	return rel
}

// Chosen is the word in brackets of a file such as "always [madvise] never".
func Chosen(text string) string {
	if _, rest, ok := strings.Cut(text, "["); ok {
		word, _, _ := strings.Cut(rest, "]")
		return word
	}
	return text
}

// NUMANodes are the numbers of the machine's memory nodes.
func (s System) NUMANodes() (nodes []string) {
	for _, name := range s.List("sys/devices/system/node") {
		if n, isNode := strings.CutPrefix(name, "node"); isNode && n != "" && strings.Trim(n, "0123456789") == "" {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
