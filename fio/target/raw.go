package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/payload"
)

// raw is a range of one or more files, or of a block device.
type raw struct {
	j *job.Job
	// files are those of each worker: all the same, or, where the job names none,
	// one each.
	files func(worker int) []string
	part  rangeOf
	facts Facts
}

// rangeOf is the part of each file that a worker uses. A worker's range runs
// through its files one after the other.
type rangeOf struct {
	offset     int64 // where it begins in each file
	partBytes  int64 // of each file
	spaceBytes int64 // of all files together
}

func openRaw(ctx context.Context, s *Set, j *job.Job) (Target, error) {
	r := &raw{j: j, files: filesOf(j)}
	if j.Directory != "" {
		if err := mustBeDirectory(j.Directory); err != nil {
			return nil, err
		}
		if isStore(j.Directory) && len(j.Filenames) == 0 && !s.o.Foreign {
			return nil, fmt.Errorf("directory %s holds a store: %w: use another directory, or ioengine=store", j.Directory, ErrForeign)
		}
	}
	if j.Direct { // before anything is made; look asks the file itself
		if err := checkAlignment(j, payload.UnitBytes, rangeOf{offset: j.Offset.Bytes}); err != nil {
			return nil, err
		}
	}
	if err := r.prepare(ctx, s); err != nil {
		return nil, err
	}
	return r, r.look()
}

// prepare looks at the files of all workers before it makes anything, and then makes and
// fills what is missing. If there is no room after all, what was made goes again.
func (r *raw) prepare(ctx context.Context, s *Set) (err error) {
	seen := map[string]bool{}
	var parts []prepared
	for worker := range r.j.NumJobs {
		files := r.files(worker)
		if seen[files[0]] {
			continue
		}
		seen[files[0]] = true
		p, err := s.prepare(r.j, files)
		if err != nil {
			return err
		}
		if worker == 0 || p.part.spaceBytes < r.part.spaceBytes {
			r.part = p.part
		}
		parts = append(parts, p)
	}
	if err := roomFor(parts); err != nil {
		return err
	}
	var made []string
	defer func() {
		if isFull(err) {
			for _, path := range made {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, p := range parts {
		for _, c := range p.list {
			err := s.complete(ctx, r.j, c, p.part)
			if _, there := os.Lstat(c.path); c.missing && there == nil {
				made = append(made, c.path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// filesOf names the files of each worker as fio does: those of filename=, or
// NAME.WORKER.0 in directory=. A job of a sweep keeps the files of the job it is made of.
func filesOf(j *job.Job) func(worker int) []string {
	if len(j.Filenames) == 0 {
		stem := cmp.Or(j.FileStem, j.Name)
		return func(worker int) []string {
			return []string{filepath.Join(j.Directory, fmt.Sprintf("%s.%d.0", stem, worker))}
		}
	}
	var files []string
	for _, name := range j.Filenames {
		if j.Directory != "" && !filepath.IsAbs(name) {
			name = filepath.Join(j.Directory, name)
		}
		files = append(files, name)
	}
	return func(int) []string { return files }
}

// mediumOptions are those of the job's I/O.
func mediumOptions(j *job.Job) device.MediumOptions {
	o := device.MediumOptions{QueueDepth: j.IODepth, Buffered: !j.Direct, ReadOnly: !j.Writes, BlockDevice: true}
	switch j.Backend {
	case job.BackendPsync:
		o.Engine = device.EnginePsync
	default:
		o.Engine = device.EngineUring
	}
	return o
}

// openMedium opens a file of the job. BackendAuto falls back to psync: refused says
// why.
func openMedium(j *job.Job, path string) (m *device.Medium, refused, err error) {
	o := mediumOptions(j)
	m, err = device.OpenMedium(path, o)
	if errors.Is(err, errors.ErrUnsupported) && j.Backend == job.BackendAuto {
		refused = err
		o.Engine = device.EnginePsync
		m, err = device.OpenMedium(path, o)
	}
	return m, refused, err
}

// look opens the first file once, to know how it is driven, and checks what only
// that tells.
func (r *raw) look() error {
	path := r.files(0)[0]
	m, refused, err := openMedium(r.j, path)
	if err != nil {
		return err
	}
	f := m.Facts()
	r.facts = Facts{Engine: job.EngineRaw.String(), Path: path, Device: f.Device, FileSystem: f.FileSystem, Direct: f.Direct}
	if refused != nil {
		r.facts.Notes = append(r.facts.Notes, fmt.Sprintf("I/O goes through pread and pwrite: %v", refused))
	}
	if !f.Direct {
		r.facts.Notes = append(r.facts.Notes, "buffered I/O: reads may come from memory and not from the drive")
	}
	if r.sync() && r.j.IODepth > 1 {
		r.facts.Notes = append(r.facts.Notes, fmt.Sprintf("psync does one I/O after the other: iodepth=%d counts as 1, as in fio; use numjobs, io_submit_mode=offload or io_uring", r.j.IODepth))
	}
	if err := m.Close(); err != nil {
		return err
	}
	return checkAlignment(r.j, int64(f.OffsetAlignBytes), r.part)
}

// sync says whether each I/O is done on the worker's own goroutine, one after the
// other, as fio's psync does.
func (r *raw) sync() bool { return r.j.Backend == job.BackendPsync && !r.j.Offload }

func checkAlignment(j *job.Job, alignBytes int64, part rangeOf) error {
	bad := func(what string, n int64) error {
		return fmt.Errorf("%s %d %w: direct I/O on this file needs multiples of %d; choose another size, or direct=0", what, n, ErrJob, alignBytes)
	}
	for d, used := range [2]bool{j.Reads, j.Writes} {
		b := j.Blocks[d]
		if !used {
			continue
		}
		for _, n := range append([]int64{b.MinBytes, b.MaxBytes, b.AlignBytes}, splitSizes(b)...) {
			if n%alignBytes != 0 {
				return bad("block size or alignment", n)
			}
		}
	}
	if part.offset%alignBytes != 0 {
		return bad("offset", part.offset)
	}
	if j.Verify != job.CheckNone && alignBytes < payload.UnitBytes {
		for d := range j.Blocks {
			if j.Blocks[d].MinBytes%payload.UnitBytes != 0 || part.offset%payload.UnitBytes != 0 {
				return fmt.Errorf("verify with bs=%d %w: blocks describe themselves every %d bytes; use multiples of that", j.Blocks[d].MinBytes, ErrJob, payload.UnitBytes)
			}
		}
	}
	return nil
}

func splitSizes(b job.Blocks) (sizes []int64) {
	for _, share := range b.Split {
		sizes = append(sizes, share.Bytes)
	}
	return sizes
}

// Facts implements Target.
func (r *raw) Facts() Facts { return r.facts }

// Close implements Target.
func (r *raw) Close() error { return nil }

// Lane implements Target.
func (r *raw) Lane(n int) (_ Lane, err error) {
	l := &deviceLane{part: r.part, depth: r.j.IODepth, memory: memory{ios: r.j.IODepth}}
	if r.sync() {
		l.depth = 1
	}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	for _, path := range r.files(n) {
		m, _, err := openMedium(r.j, path)
		if err != nil {
			return nil, err
		}
		l.closers = append(l.closers, m.Close)
		l.files = append(l.files, m.File())
		l.devices = append(l.devices, m)
		if len(r.files(n)) == 1 {
			l.register = m.RegisterMemory
			if r.sync() {
				l.lone = m.Transfer
			} else if m.Facts().Device == device.EngineUring && r.j.IODepth == 1 && !r.j.Offload {
				l.lone = m.SubmitWaiting
			}
		} else if r.sync() {
			l.lones = append(l.lones, m.Transfer)
		}
	}
	return l, nil
}
