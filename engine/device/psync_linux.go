package device

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// psync is the Device of one real directory: positioned, vectored reads and
// writes on a bounded set of workers, and beside them, if there are any, rings.
//
// Life of an Op: Submit checks it and takes a place in the queue under mu; a
// worker takes it and runs its system calls, or a ring sees it through; then
// its place in the queue is given back, Done is called, and only then it stops
// counting for its file. Everything that waits is psync's own: Close ends and
// awaits it.
//
// Lock order: life, then mu.
type psync struct {
	dir     string
	options Options
	medium  bool     // of one file that is no store's: no root, handle or lock
	root    *os.Root // the directory; every name is resolved beneath it
	handle  *os.File // the directory itself, for fsync, statfs and its lock
	lock    *os.File
	facts   Facts
	punch   bool // fallocate can punch holes
	zeros   []byte
	calls   vectorCalls
	workers sync.WaitGroup
	rings   *rings // beside the workers; nil without io_uring
	solo    *ring  // for a lone read, see newSolo; belongs to the one op in the queue
	lanes   *lanes // for calls that block, with io_uring
	tempSeq atomic.Uint64

	// life is held shared by every method that touches names, so that none of
	// them outlives the directory lock.
	life   sync.RWMutex
	closed bool

	mu        sync.Mutex
	work      sync.Cond // an op was queued, or the queue was closed
	idle      sync.Cond // the last op of a closing file has ended
	queue     turns
	occupied  int // ops queued or in flight, at most options.QueueOps
	ending    bool
	openFiles int
}

// OpenDir opens dir as a Device. By default it uses io_uring, with blocking
// system calls on workers for what those do better, and the workers alone where
// io_uring is refused; see Options.Engine. A Device with io_uring implements
// MemoryRegistrar.
//
// The directory is locked exclusively for as long as the device is open, by a
// lock that dies with the process; nothing but the lock file is made before it
// is held, and a directory in use ends in *InUseError after Options.LockWait.
// Direct I/O is proven by writing and reading a file that has no name any more.
// A file system that is not allowed, or without direct I/O where that is asked
// for, ends in *UnsupportedError.
//
// The names LOCK and .spillway-* are the device's own: List hides them and the
// other methods refuse them. Temporary files of a process that was killed are
// removed here. The soft limit of open files is raised to the hard one.
func OpenDir(dir string, o Options) (Device, error) {
	return openDir(dir, o, realRings)
}

func openDir(dir string, o Options, setup ringSetup) (Device, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	made := false
	if o.Create {
		var err error
		if made, err = makeDir(dir); err != nil {
			return nil, err
		}
	}
	raiseFileLimit()
	d := &psync{dir: dir, options: o, calls: kernelCalls}
	d.work.L, d.idle.L = &d.mu, &d.mu
	err := d.open()
	if err == nil {
		err = d.openRings(setup)
	}
	if err != nil {
		d.release()
		if made {
			_ = os.Remove(dir) // unless the lock file is in it already
		}
		return nil, err
	}
	d.startWorkers()
	if d.rings == nil {
		return d, nil
	}
	d.lanes = newLanes()
	return &uring{d}, nil
}

func (d *psync) startWorkers() {
	for range d.options.QueueDepth {
		d.workers.Go(d.serve)
	}
}

// open does everything up to the start of the workers; what it leaves behind
// on an error, release closes.
func (d *psync) open() (err error) {
	if d.root, err = os.OpenRoot(d.dir); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if d.handle, err = d.root.Open("."); err != nil {
		return fmt.Errorf("device %s: %w", d.dir, err)
	}
	d.facts = Facts{Device: "psync", QueueOps: d.options.QueueOps}
	if d.facts.FileSystem, err = fileSystemName(d.handle); err != nil {
		return fmt.Errorf("device %s: %w", d.dir, err)
	}
	if !d.options.AnyFileSystem && !slices.Contains(allowedFileSystems, d.facts.FileSystem) {
		return &UnsupportedError{Dir: d.dir, FileSystem: d.facts.FileSystem,
			Problem: "this file system is not known to keep the promises of direct I/O",
			Remedy:  "use a directory on ext4 or XFS, or allow other file systems (AnyFileSystem)"}
	}
	if d.lock, err = lockDir(d.root, d.handle, d.dir, d.options.LockWait); err != nil {
		return err
	}
	if err = d.removeLeftovers(); err != nil {
		return err
	}
	return d.probe()
}

// release closes what open opened; nothing is written through any of it.
func (d *psync) release() {
	d.lanes.close()
	if d.solo != nil {
		d.solo.k.Close()
	}
	d.rings.close() // the kernel lets go of the lock and of the files here
	if d.root != nil {
		_ = d.root.Close()
	}
	if d.handle != nil {
		_ = d.handle.Close()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// Close implements Device. Open files are a mistake of the caller: the device
// waits for their ops and closes all the same, and says so.
func (d *psync) Close() error {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.closed = true
	d.mu.Lock()
	d.ending = true
	d.work.Broadcast()
	d.mu.Unlock()
	d.workers.Wait()
	d.release()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openFiles > 0 {
		return fmt.Errorf("device %s: closed with %d files still open", d.dir, d.openFiles)
	}
	return nil
}

// Facts implements Device.
func (d *psync) Facts() Facts {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.facts
	f.Notes = slices.Clone(f.Notes)
	return f
}

// Space implements Device. FreeBytes is what a process without privileges may
// still use.
func (d *psync) Space() (Space, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.closed {
		return Space{}, ErrClosed
	}
	var s unix.Statfs_t
	statfs := func() error { return unix.Fstatfs(int(d.handle.Fd()), &s) }
	if err := d.apart(func() error { return retry(statfs) }); err != nil {
		return Space{}, fmt.Errorf("device %s: statfs: %w", d.dir, err)
	}
	return spaceOf(&s), nil
}

func spaceOf(s *unix.Statfs_t) Space {
	unit := s.Frsize
	if unit == 0 {
		unit = s.Bsize
	}
	return Space{TotalBytes: int64(s.Blocks) * unit, FreeBytes: int64(s.Bavail) * unit}
}

// makeDir makes dir durably unless it exists.
func makeDir(dir string) (made bool, err error) {
	err = os.Mkdir(dir, 0o750)
	if os.IsExist(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("device: %w", err)
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return true, fmt.Errorf("device: %w", err)
	}
	defer parent.Close()
	if err := parent.Sync(); err != nil {
		return true, fmt.Errorf("device: %w", err)
	}
	return true, nil
}

// raiseFileLimit lifts the soft limit of open files to the hard one. Should it
// fail, the limit that stays shows itself as EMFILE.
func raiseFileLimit() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}

// retry repeats call while a signal interrupts it.
func retry(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// pathError keeps the errno reachable and names the file.
func pathError(what, name string, err error) error {
	return &fs.PathError{Op: what, Path: name, Err: err}
}
