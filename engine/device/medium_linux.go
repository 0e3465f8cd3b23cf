package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MediumOptions configure a Medium. Zero values mean the defaults named here.
type MediumOptions struct {
	// Engine is EngineUring (default) or EnginePsync.
	Engine string
	// QueueDepth is the number of transfers at once, 1 to 1024, default 32.
	QueueDepth int
	// Buffered goes through the page cache. Default: direct I/O, or an error.
	Buffered bool
	// ReadOnly opens for reading.
	ReadOnly bool
	// GrowBytes makes the file if it is missing and reserves that many bytes of it.
	// 0: the file must be there and stays as long as it is.
	GrowBytes int64
	// BlockDevice allows a block device, which then nobody else may have mounted
	// or opened exclusively.
	BlockDevice bool
}

// Medium is one file, or block device, that belongs to no store: what the
// benchmark of bare media reads and writes. It has the transfers of a Device and
// nothing else of it: no lock, no names, and nothing beside the file is touched.
//
// Submit, SubmitWaiting and RegisterMemory may be called from many goroutines.
type Medium struct {
	d    *psync
	file *file
	v    vector
}

// ErrBlockDevice: the path is a block device, and that was not allowed.
var ErrBlockDevice = errors.New("a block device")

// OpenMedium opens path. Errors match fs.ErrNotExist, ErrBlockDevice,
// syscall.EBUSY for a device that is mounted, and errors.ErrUnsupported where
// direct I/O or io_uring is refused.
func OpenMedium(path string, o MediumOptions) (*Medium, error) {
	if o.Engine == "" {
		o.Engine = EngineUring
	}
	do := Options{Engine: o.Engine, QueueDepth: o.QueueDepth}
	if o.QueueDepth > 0 {
		do.QueueOps = max(o.QueueDepth, 64)
	}
	if err := do.Validate(); err != nil {
		return nil, err
	}
	f, made, err := openMediumFile(path, o)
	if err != nil {
		return nil, err
	}
	m := &Medium{d: &psync{dir: path, options: do.withDefaults(), calls: kernelCalls, medium: true}}
	m.d.work.L, m.d.idle.L = &m.d.mu, &m.d.mu
	m.file = &file{d: m.d, f: f, fd: int(f.Fd()), name: path}
	if err := m.open(o); err != nil {
		m.d.release()
		_ = f.Close()
		if made {
			err = errors.Join(err, os.Remove(path))
		}
		return nil, err
	}
	m.d.countFile(1)
	m.d.rings.addFile(m.file)
	if m.d.rings != nil {
		m.d.lanes = newLanes()
	}
	m.d.startWorkers()
	return m, nil
}

// openMediumFile opens path, and makes it only if o says so.
func openMediumFile(path string, o MediumOptions) (f *os.File, made bool, err error) {
	flags := os.O_RDWR
	if o.ReadOnly {
		flags = os.O_RDONLY
	}
	if !o.Buffered {
		flags |= syscall.O_DIRECT
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.GrowBytes > 0:
		flags |= os.O_CREATE | os.O_EXCL
		made = true
	case err != nil:
		return nil, false, err
	case info.Mode().IsRegular():
	case info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0:
		if !o.BlockDevice {
			return nil, false, fmt.Errorf("%s is %w", path, ErrBlockDevice)
		}
		flags |= os.O_EXCL // refused while it is mounted
	default:
		return nil, false, fmt.Errorf("%s is neither a regular file nor a block device (%v)", path, info.Mode().Type())
	}
	f, err = os.OpenFile(path, flags, 0o640)
	if errors.Is(err, syscall.EINVAL) && !o.Buffered {
		return nil, false, &UnsupportedError{Dir: path, FileSystem: "its file system",
			Problem: "direct I/O is refused", Remedy: "use ext4 or XFS, or go through the page cache", Cause: err}
	}
	return f, made, err
}

// open measures the file and sets the transfers up.
func (m *Medium) open(o MediumOptions) error {
	d, f := m.d, m.file
	var err error
	d.facts = Facts{Device: EnginePsync, QueueOps: d.options.QueueOps, Direct: !o.Buffered, Xattrs: true}
	if d.facts.FileSystem, err = fileSystemName(f.f); err != nil {
		return err
	}
	d.facts.MemAlignBytes, d.facts.OffsetAlignBytes = defaultAlignBytes, defaultAlignBytes
	if memBytes, offsetBytes, known := reportedAlignment(f.f); known && memBytes > 0 {
		d.facts.MemAlignBytes, d.facts.OffsetAlignBytes = memBytes, offsetBytes
	}
	if o.Buffered {
		d.facts.MemAlignBytes, d.facts.OffsetAlignBytes = 1, 1
	}
	if err := m.measure(o.GrowBytes); err != nil {
		return err
	}
	return d.openRings(realRings)
}

// measure finds the file's size and gives it more where asked.
func (m *Medium) measure(growBytes int64) error {
	f := m.file
	sizeBytes, err := f.f.Seek(0, 2) // of a block device too
	if err != nil {
		return err
	}
	if sizeBytes < growBytes {
		if err := m.grow(sizeBytes, growBytes); err != nil {
			return err
		}
		sizeBytes = growBytes
	}
	f.sizeBytes = sizeBytes
	return nil
}

// grow reserves what the file lacks. A file system that has no room for it is not filled
// up first, and a file that could not be grown is as long as before.
func (m *Medium) grow(sizeBytes, growBytes int64) error {
	f := m.file
	if err := Room(f.name, growBytes-sizeBytes); err != nil {
		return err
	}
	err := retry(func() error { return unix.Fallocate(f.fd, 0, sizeBytes, growBytes-sizeBytes) })
	if errors.Is(err, syscall.EOPNOTSUPP) {
		err = f.f.Truncate(growBytes)
	}
	if err != nil {
		return errors.Join(pathError("grow", f.name, err), f.f.Truncate(sizeBytes))
	}
	return nil
}

// Room is nil if the file system of path has room for so many bytes more, or does not
// tell. The error matches syscall.ENOSPC.
func Room(path string, nBytes int64) error {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(path, &s) }); err != nil {
		return nil
	}
	free := spaceOf(&s).FreeBytes
	if nBytes <= free {
		return nil
	}
	return fmt.Errorf("%s: %d bytes more are needed, and its file system has %d free: %w", path, nBytes, free, syscall.ENOSPC)
}

// Facts tells how transfers are made, and the alignment they need.
func (m *Medium) Facts() Facts { return m.d.Facts() }

// File is what Ops are for.
func (m *Medium) File() File { return m.file }

// Submit is that of Device.
func (m *Medium) Submit(ops []*Op) { m.d.Submit(ops) }

// SubmitWaiting is that of Waiting.
func (m *Medium) SubmitWaiting(op *Op) { m.d.SubmitWaiting(op, time.Time{}) }

// Transfer carries op, a Read, Write or Sync, out on the calling goroutine, by
// pread or pwrite, and calls Done there. Only one goroutine may call it.
func (m *Medium) Transfer(op *Op) {
	m.d.checkCaller(op)
	op.N, op.Err = 0, nil
	if op.StartedAt = time.Now(); !m.d.argumentsGood(op) {
		op.Err = ErrUnaligned
	} else {
		op.N, op.Err = m.v.run(op, m.file)
	}
	op.DoneAt = time.Now()
	op.Done(op)
}

// RegisterMemory is that of MemoryRegistrar; with EnginePsync it matches
// errors.ErrUnsupported.
func (m *Medium) RegisterMemory(mem []byte) (release func(), err error) {
	if m.d.rings == nil {
		return nil, fmt.Errorf("device %s: psync registers no memory: %w", m.d.dir, errors.ErrUnsupported)
	}
	return (&uring{m.d}).RegisterMemory(mem)
}

// Close waits for every op in flight and closes the file.
func (m *Medium) Close() error {
	return errors.Join(m.file.Close(), m.d.Close())
}
