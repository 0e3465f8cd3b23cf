package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/payload"
)

// benchmarkAttr marks the files that a benchmark has made (user.spillway.benchmark).
const benchmarkAttr = "benchmark"

// candidate is a file or device before anything is made.
type candidate struct {
	path    string
	missing bool
	block   bool
	ours    bool // a benchmark made it
	bytes   int64
}

// prepared is what the files of a worker are, before anything is made, and which part of
// them is used.
type prepared struct {
	list []candidate
	part rangeOf
}

// prepare checks the files of a worker.
func (s *Set) prepare(j *job.Job, files []string) (p prepared, err error) {
	for _, path := range files {
		c, err := s.examine(j, path)
		if err != nil {
			return p, err
		}
		p.list = append(p.list, c)
	}
	p.part, err = partOf(j, p.list)
	return p, err
}

// roomFor refuses files that will not fit beside one another.
func roomFor(all []prepared) error {
	missing := map[string]int64{} // bytes, by directory
	for _, p := range all {
		for _, c := range p.list {
			if !c.block && (c.missing || c.ours || c.bytes == 0) {
				missing[filepath.Dir(c.path)] += max(0, p.part.needBytes()-c.bytes)
			}
		}
	}
	for dir, need := range missing {
		if err := device.Room(dir, need); err != nil {
			return err
		}
	}
	return nil
}

// needBytes is how long each file must be.
func (r rangeOf) needBytes() int64 { return roundUp(r.offset+r.partBytes, payload.UnitBytes) }

// examine looks at a path and refuses what the job must not touch. It makes
// nothing.
func (s *Set) examine(j *job.Job, path string) (candidate, error) {
	c := candidate{path: path}
	info, err := os.Stat(path)
	if isStore(filepath.Dir(path)) && !s.o.Foreign && (j.Writes || err != nil || info.Size() == 0) {
		return c, fmt.Errorf("file %s: %w: its directory holds a store; use another directory, or ioengine=store", path, ErrForeign)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missing = true
		if err := mustBeDirectory(filepath.Dir(path)); err != nil {
			return c, err
		}
		if !j.Writes && len(j.Filenames) > 0 {
			return c, fmt.Errorf("file %s: %w: a job that only reads makes no file that it was given by name; write it first (rw=write), or give directory= in place of filename=", path, fs.ErrNotExist)
		}
		if j.Size.Bytes == 0 {
			return c, fmt.Errorf("file %s %w: it is missing, and without size= nobody knows how long to make it", path, ErrJob)
		}
		return c, nil
	case err != nil:
		return c, err
	}
	c.block = info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
	switch {
	case c.block && !s.o.Foreign:
		return c, fmt.Errorf("%s is a block device: %w: what is on it may be destroyed; allow it with --allow-foreign", path, ErrForeign)
	case c.block:
	case !info.Mode().IsRegular():
		return c, fmt.Errorf("%s is neither a file nor a block device (%v)", path, info.Mode().Type())
	}
	return c, s.look(j, &c)
}

// look opens what is there for reading, to measure it and to see whose it is.
func (s *Set) look(j *job.Job, c *candidate) error {
	m, err := device.OpenMedium(c.path, device.MediumOptions{Engine: device.EnginePsync, QueueDepth: 1, ReadOnly: true, Buffered: true, BlockDevice: c.block})
	if err != nil {
		return err
	}
	defer m.Close()
	c.bytes = m.File().SizeBytes()
	if _, err := m.File().Attr(benchmarkAttr); err == nil {
		c.ours = true
	} else if c.bytes >= payload.UnitBytes {
		b := make([]byte, payload.UnitBytes)
		m.Transfer(&device.Op{Kind: device.Read, File: m.File(), Bufs: [][]byte{b}, Done: func(op *device.Op) { err = op.Err }})
		if err != nil {
			return err
		}
		found, _ := payload.Prove(b, payload.At(0))
		c.ours = found != payload.Foreign
	}
	if j.Writes && !c.ours && !c.block && c.bytes > 0 && !s.o.Foreign {
		return fmt.Errorf("file %s: %w: no benchmark made it, and the job would write over it; allow that with --allow-foreign", c.path, ErrForeign)
	}
	return nil
}

func mustBeDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	return nil
}

// partOf resolves size= and offset=.
func partOf(j *job.Job, list []candidate) (rangeOf, error) {
	n := int64(len(list))
	have := list[0].bytes
	for _, c := range list {
		have = min(have, c.bytes)
	}
	r := rangeOf{offset: j.Offset.Bytes}
	if j.Offset.Percent > 0 {
		r.offset = have / 100 * int64(j.Offset.Percent) / payload.UnitBytes * payload.UnitBytes
	}
	switch {
	case j.Size.Bytes > 0:
		r.partBytes = j.Size.Bytes / n
	case j.Size.Percent > 0:
		r.partBytes = min(have*int64(j.Size.Percent)/100, have-r.offset)
	default:
		r.partBytes = have - r.offset
	}
	if largest := max(j.Blocks[job.Read].MaxBytes, j.Blocks[job.Write].MaxBytes); n > 1 && largest > 0 {
		r.partBytes = r.partBytes / largest * largest // no block lies in two files
	}
	if r.partBytes <= 0 {
		return r, fmt.Errorf("file %s %w: %d bytes from %d on leave nothing to use", list[0].path, ErrJob, have, r.offset)
	}
	r.spaceBytes = n * r.partBytes
	return r, nil
}

// complete makes a file as long as the job needs, and, if the job reads, writes
// what was never written: reading that would not reach the drive.
func (s *Set) complete(ctx context.Context, j *job.Job, c candidate, part rangeOf) error {
	need := part.needBytes()
	own := c.missing || c.ours || c.bytes == 0 && !c.block
	switch {
	case c.block || !own:
		if c.bytes < part.offset+part.partBytes && !(j.Writes && own) {
			return fmt.Errorf("%s %w: it has %d bytes and the job needs %d", c.path, ErrJob, c.bytes, part.offset+part.partBytes)
		}
		return nil
	case c.bytes < need || c.missing:
		if err := s.grow(j, c.path, need); err != nil {
			return err
		}
	}
	if !j.Reads {
		return nil
	}
	return s.layOut(ctx, j, c.path, part.offset/payload.UnitBytes*payload.UnitBytes, need)
}

// grow makes a file, or makes it longer, and marks it.
func (s *Set) grow(j *job.Job, path string, needBytes int64) error {
	m, err := device.OpenMedium(path, device.MediumOptions{Engine: device.EnginePsync, QueueDepth: 1, GrowBytes: needBytes, Buffered: !j.Direct})
	if err != nil {
		return err
	}
	_ = m.File().SetAttr(benchmarkAttr, []byte{'1'}) // without attributes its payload tells
	return m.Close()
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
