package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/wal"
)

type inspectCmd struct {
	JSON  bool     `name:"json" help:"Print JSON objects, one a line, each with a type field; errors go to stderr as JSON."`
	Limit int      `default:"1000" help:"Most lines to print for each file; 0 means all. Damage is always printed."`
	Files []string `arg:"" name:"file" complete:"file" help:"Files of a store, its index folder, or its directory for all of them."`
}

// Help is shown under the flags.
func (*inspectCmd) Help() string {
	return "Decodes store file, segments, log files, index folder, deletions and lock file, says what is wrong and where, and goes on. " +
		"It never writes and takes no lock: the files of a store in use can be looked at, except the index, " +
		"and may change meanwhile. A file is known by its first bytes, else by its name. " +
		"The exit code is 5 if damage was met, 1 if a file is none of ours."
}

// fileKind is a kind of file and how it is shown.
type fileKind struct {
	name string // as the user reads it
	mine func(base string, head []byte) bool
	show func(in *inspection, f *os.File, sizeBytes int64) error
}

// fileKinds in the order in which they are asked, first by content alone, then
// by name alone.
var fileKinds = []fileKind{
	{"store file", func(base string, head []byte) bool { return base == engine.StoreFileName || engine.IsStoreFile(head) }, (*inspection).storeFile},
	{"segment", func(base string, head []byte) bool {
		_, named := engine.SegmentNumber(base)
		return named || engine.IsSegment(head)
	}, (*inspection).segment},
	{"log file", func(base string, head []byte) bool {
		_, named := wal.FileNumber(base)
		return named || wal.IsLogFile(head)
	}, (*inspection).logFile},
	{"deletions", func(base string, head []byte) bool { return base == engine.DeletionsName || engine.IsDeletions(head) }, (*inspection).deletions},
	{"ballast", func(base string, _ []byte) bool { return base == engine.BallastName }, (*inspection).ballast},
	{"lock file", func(base string, _ []byte) bool { return base == lockFileName }, (*inspection).lockFile},
}

// lockFileName is the lock of package device.
const lockFileName = "LOCK"

func (c *inspectCmd) run(ctx context.Context, st *state) error {
	if c.Limit < 0 {
		return usagef("give 0 for all", "--limit %d is negative", c.Limit)
	}
	var errs []error
	for _, path := range c.Files {
		paths, err := expand(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, path := range paths {
			if ctx.Err() != nil {
				return gravest(append(errs, &failure{code: exitError, message: "interrupted", cause: ctx.Err()})...)
			}
			in := &inspection{ctx: ctx, out: st.stdout, asJSON: c.JSON, limit: c.Limit, path: path}
			errs = append(errs, in.inspect())
		}
	}
	return gravest(errs...)
}

// expand turns a store's directory into its files; anything else stays.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	isIndex, err := engine.IsIndex(path)
	if err != nil {
		return nil, err
	}
	if isIndex {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var ours []string
	for _, e := range entries {
		full := filepath.Join(path, e.Name())
		isIndex := false
		if e.Name() == engine.IndexFolder && e.IsDir() {
			isIndex, _ = engine.IsIndex(full)
		}
		if isIndex || e.Type().IsRegular() && kindOf(e.Name(), nil) != nil {
			ours = append(ours, full)
		}
	}
	if len(ours) == 0 {
		return nil, notOurs(path)
	}
	return ours, nil
}

func notOurs(path string) error {
	return &failure{code: exitError, message: path + " is none of our files", remedy: "give the files or the directory of a store"}
}

// kindOf knows a file by its first bytes, else by its name.
func kindOf(base string, head []byte) *fileKind {
	for i := range fileKinds {
		if len(head) > 0 && fileKinds[i].mine("", head) {
			return &fileKinds[i]
		}
	}
	for i := range fileKinds {
		if fileKinds[i].mine(base, nil) {
			return &fileKinds[i]
		}
	}
	return nil
}

// inspect shows one file.
func (in *inspection) inspect() error {
	info, err := os.Stat(in.path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		in.begin("index", 0)
		return in.end(in.index())
	}
	if !info.Mode().IsRegular() {
		return notOurs(in.path)
	}
	f, err := os.Open(in.path)
	if err != nil {
		return err
	}
	defer f.Close()
	const magicBytes = 8
	head := make([]byte, magicBytes)
	n, _ := f.ReadAt(head, 0) // what cannot be read is said by the one who shows the file
	kind := kindOf(filepath.Base(in.path), head[:n])
	if kind == nil {
		return notOurs(in.path)
	}
	in.begin(kind.name, info.Size())
	return in.end(kind.show(in, f, info.Size()))
}

// end says how much there was and turns damage into an error.
func (in *inspection) end(err error) error {
	if in.err != nil { // nobody reads any more
		return in.err
	}
	if err != nil && !errors.Is(err, engine.ErrCorrupt) {
		return err
	}
	if err != nil {
		in.flaw(0, err.Error(), true)
	}
	in.always(inspectEnd{"end", in.path, in.shown, in.leftOut, in.damage}, func() string {
		text := fmt.Sprintf("  %d damages", in.damage)
		if in.leftOut > 0 {
			text += fmt.Sprintf("; %d lines more, --limit is %d", in.leftOut, in.limit)
		}
		return text
	})
	if in.err != nil || in.damage == 0 {
		return in.err
	}
	return &failure{code: exitDamage, message: fmt.Sprintf("%s: %d damages", in.path, in.damage),
		remedy: "spillway check says what it costs, of the whole store; blocks can be computed again"}
}
