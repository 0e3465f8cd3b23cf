// Package doctor looks at a directory and the machine below it and says what is
// wrong there for a store, and what mends it.
//
// Facts are gathered first, all of them by Machine, which reads files below a
// root and makes a few calls; checks are functions of the facts alone.
package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/engine/device"
)

// Machine is where facts come from.
type Machine struct {
	// Root is put before the paths of /proc, /sys and the container's marks; /
	// is the machine itself.
	Root string
	// The calls that no file answers.
	Probe  func(dir string) (device.Probed, error)
	Uring  func() error
	Holder func(dir string) (holder string, held bool, err error)
	Space  func(dir string) (device.Space, error)
}

// This is the machine that the process runs on.
func This() Machine {
	return Machine{Root: "/", Probe: device.Probe, Uring: device.ProbeUring, Holder: device.Holder, Space: spaceOf}
}

// text is a file's content without the space around it, "" if it cannot be read.
func (m Machine) text(path ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{m.Root}, path...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number is a file's whole number, -1 if it has none.
func (m Machine) number(path ...string) int64 {
	n, err := strconv.ParseInt(m.text(path...), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (m Machine) exists(path string) bool {
	_, err := os.Stat(filepath.Join(m.Root, path))
	return err == nil
}

// field is the rest of the line that starts with name, "" without one.
func (m Machine) field(path, name string) string {
	for line := range strings.Lines(m.text(path)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// list names the entries of a folder.
func (m Machine) list(path ...string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(append([]string{m.Root}, path...)...))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// nearest is dir, absolute and with its links resolved, or the nearest folder
// above it that exists, so many levels up.
func nearest(dir string) (path string, levels int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", 0, err
	}
	for {
		path, err = filepath.EvalSymlinks(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return path, levels, err
		}
		dir = filepath.Dir(dir)
		levels++
	}
}
