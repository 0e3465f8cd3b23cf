package engine_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// medium is a store's directory that nobody has open. An attribute is a file
// named FILE#ATTR.
type medium interface {
	names() []string // of everything in it, folders walked
	read(name string) []byte
	flip(name string, at int64, mask byte)
	fork() medium // a copy, to be ruined
	open() (*engine.Store, error)
	check(o engine.CheckOptions) (engine.CheckReport, []engine.Fault)
}

// simMedium is a rig's disk and file system.
type simMedium struct{ *rig }

func (m simMedium) names() (names []string) {
	for _, name := range m.disk.Names() {
		names = append(names, name)
		attrs, err := m.disk.Attrs(name)
		must(m.t, err)
		for _, attr := range attrs {
			names = append(names, name+"#"+attr)
		}
	}
	var walk func(folder string)
	walk = func(folder string) {
		list, err := m.fs.List(folder)
		must(m.t, err)
		for _, name := range list {
			name = strings.TrimPrefix(folder+"/"+name, "/")
			info, err := m.fs.Stat(name)
			must(m.t, err)
			if info.IsDir() {
				walk(name)
				continue
			}
			names = append(names, name)
		}
	}
	walk("")
	slices.Sort(names)
	return names
}

func (m simMedium) read(name string) (raw []byte) {
	file, attr, isAttr := strings.Cut(name, "#")
	switch {
	case isAttr:
		m.offline(func(dev device.Device) {
			f, err := dev.Open(file)
			must(m.t, err)
			raw, err = f.Attr(attr)
			must(m.t, errors.Join(err, f.Close()))
		})
	case strings.Contains(name, "/"):
		f, err := m.fs.Open(name)
		must(m.t, err)
		raw, err = io.ReadAll(f)
		must(m.t, errors.Join(err, f.Close()))
	default:
		var err error
		raw, err = m.disk.Bytes(name)
		must(m.t, err)
	}
	return raw
}

func (m simMedium) flip(name string, at int64, mask byte) {
	file, attr, isAttr := strings.Cut(name, "#")
	if !isAttr && !strings.Contains(name, "/") {
		for bit := range uint(8) {
			if mask&(1<<bit) != 0 {
				must(m.t, m.disk.FlipBit(name, at, bit))
			}
		}
		return
	}
	raw := m.read(name)
	raw[at] ^= mask
	if isAttr {
		m.offline(func(dev device.Device) {
			f, err := dev.Open(file)
			must(m.t, err)
			must(m.t, errors.Join(f.SetAttr(attr, raw), f.Close()))
		})
		return
	}
	f, err := m.fs.Create(name, vfs.WriteCategoryUnspecified)
	must(m.t, err)
	_, err = f.Write(raw)
	must(m.t, errors.Join(err, f.Sync(), f.Close()))
}

func (m simMedium) fork() medium {
	return simMedium{&rig{t: m.t, disk: m.disk.Clone(), rng: m.rng,
		fs: m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: m.rng})}}
}

func (m simMedium) open() (*engine.Store, error) { return m.tryOpen(engine.Options{}) }

// dirMedium is a real directory.
type dirMedium struct {
	t   testing.TB
	dir string
}

const userAttr = "user.spillway."

func (m dirMedium) names() (names []string) {
	must(m.t, filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(m.dir, path)
		names = append(names, name)
		list := make([]byte, 4096)
		n, attrErr := unix.Listxattr(path, list)
		if attrErr != nil && !errors.Is(attrErr, errors.ErrUnsupported) {
			return attrErr
		}
		for attr := range strings.SplitSeq(string(list[:max(n, 0)]), "\x00") {
			if attr, ours := strings.CutPrefix(attr, userAttr); ours {
				names = append(names, name+"#"+attr)
			}
		}
		return err
	}))
	return names
}

func (m dirMedium) read(name string) []byte {
	if file, attr, isAttr := strings.Cut(name, "#"); isAttr {
		raw := make([]byte, 4096)
		n, err := unix.Getxattr(filepath.Join(m.dir, file), userAttr+attr, raw)
		must(m.t, err)
		return raw[:n]
	}
	raw, err := os.ReadFile(filepath.Join(m.dir, name))
	must(m.t, err)
	return raw
}

func (m dirMedium) write(name string, raw []byte) {
	if file, attr, isAttr := strings.Cut(name, "#"); isAttr {
		must(m.t, unix.Setxattr(filepath.Join(m.dir, file), userAttr+attr, raw, 0))
		return
	}
	must(m.t, os.WriteFile(filepath.Join(m.dir, name), raw, 0o600))
}

func (m dirMedium) flip(name string, at int64, mask byte) {
	raw := m.read(name)
	raw[at] ^= mask
	m.write(name, raw)
}

func (m dirMedium) fork() medium {
	c := dirMedium{m.t, m.t.TempDir()}
	for _, name := range m.names() { // a file comes before its attributes
		if !strings.Contains(name, "#") {
			must(m.t, os.MkdirAll(filepath.Dir(filepath.Join(c.dir, name)), 0o700))
		}
		c.write(name, m.read(name))
	}
	return c
}

func (m dirMedium) open() (*engine.Store, error) {
	return engine.Open(engine.Options{Dir: m.dir, BufferedIO: true, AnyFileSystem: true})
}

func (m dirMedium) check(o engine.CheckOptions) (engine.CheckReport, []engine.Fault) {
	var faults []engine.Fault
	o.Dir, o.BufferedIO, o.AnyFileSystem = m.dir, true, true
	o.OnFault = func(f engine.Fault) { faults = append(faults, f) }
	report, err := engine.Check(m.t.Context(), o)
	must(m.t, err)
	return report, faults
}

// flipIndex flips one bit of a file of the index.
func (r *rig) flipIndex(name string, at int) { simMedium{r}.flip(name, int64(at), 1<<(at%8)) }
