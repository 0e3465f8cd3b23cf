package sim

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/engine/device"
)

// session is one process's use of a Disk. The Disk's mutex guards everything
// but d and dead. It owns the goroutines that run ops: one per op in flight,
// none when idle; Close waits for them.
type session struct {
	d    *Disk
	dead chan struct{} // closed by Kill

	closed bool // Close was called: no new ops or calls
	killed bool

	files   map[*file]struct{} // open ones
	flying  []*pending         // in flight, in the order they began
	queue   []*pending         // waiting for a place in flight
	first   int                // how many at the head of queue go first
	live    int                // ops accepted and not ended; bounded by QueueOps
	running int                // goroutines
}

// Facts implements device.Device.
func (s *session) Facts() device.Facts {
	c := s.d.cfg
	return device.Facts{
		Device: "sim", FileSystem: "sim", Direct: true,
		MemAlignBytes: c.MemAlignBytes, OffsetAlignBytes: c.OffsetAlignBytes,
		Xattrs: !c.NoXattrs, Preallocate: true, QueueOps: c.QueueOps,
	}
}

// enterLocked is the start of every call that is not an op: it refuses on a
// session that has ended, refuses names that are none, and injects MetaEIO.
func (s *session) enterLocked(op, name string, named bool) error {
	if err := s.endedLocked(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	if named && (name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00")) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	d := s.d
	if d.plan.MetaEIO > 0 && d.plan.aimsAt(name) && hit(d.rng, d.plan.MetaEIO) {
		d.counts.MetaEIO++
		return &fs.PathError{Op: op, Path: name, Err: errIO}
	}
	return nil
}

func (s *session) endedLocked() error {
	switch {
	case s.killed:
		return ErrKilled
	case s.closed:
		return device.ErrClosed
	}
	return nil
}

// Create implements device.Device.
func (s *session) Create(name string, sizeBytes int64) (device.File, error) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.enterLocked("create", name, true); err != nil {
		return nil, err
	}
	switch {
	case sizeBytes < 0:
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
	case d.names[name] != nil:
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	case !d.fitsLocked(sizeBytes):
		return nil, &fs.PathError{Op: "create", Path: name, Err: errNoSpace}
	}
	ino := d.newInodeLocked(sizeBytes)
	d.changeLocked(change{name: name, ino: ino})
	return s.handleLocked(name, ino), nil
}

// Open implements device.Device.
func (s *session) Open(name string) (device.File, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	ino, err := s.findLocked("open", name)
	if err != nil {
		return nil, err
	}
	return s.handleLocked(name, ino), nil
}

func (s *session) handleLocked(name string, ino *inode) *file {
	f := &file{s: s, name: name, size: ino.size, ino: ino}
	s.files[f] = struct{}{}
	return f
}

// findLocked enters a call on a file that must exist.
func (s *session) findLocked(op, name string) (*inode, error) {
	if err := s.enterLocked(op, name, true); err != nil {
		return nil, err
	}
	ino := s.d.names[name]
	if ino == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return ino, nil
}

// Remove implements device.Device.
func (s *session) Remove(name string) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	ino, err := s.findLocked("remove", name)
	if err != nil {
		return err
	}
	s.d.changeLocked(change{name: name, ino: ino, unlink: true})
	return nil
}

// Rename implements device.Device.
func (s *session) Rename(oldName, newName string) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if err := s.enterLocked("rename", newName, true); err != nil {
		return err
	}
	ino, err := s.findLocked("rename", oldName)
	if err != nil || oldName == newName {
		return err
	}
	s.d.changeLocked(change{name: oldName, newName: newName, ino: ino})
	return nil
}

// List implements device.Device.
func (s *session) List() ([]string, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if err := s.enterLocked("list", "", false); err != nil {
		return nil, err
	}
	return s.d.sortedNamesLocked(), nil
}

// ReadFile implements device.Device.
func (s *session) ReadFile(name string) ([]byte, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	ino, err := s.findLocked("read", name)
	if err != nil {
		return nil, err
	}
	return ino.content(), nil
}

// WriteFile implements device.Device.
func (s *session) WriteFile(name string, data []byte) error {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.enterLocked("write", name, true); err != nil {
		return err
	}
	// The old content stays until the new one is whole: both need room.
	if !d.fitsLocked(int64(len(data))) {
		return &fs.PathError{Op: "write", Path: name, Err: errNoSpace}
	}
	ino := d.newInodeLocked(int64(len(data)))
	ino.writeAt(data, 0)
	ino.settle()
	d.changeLocked(change{name: name, ino: ino, durable: true})
	return nil
}

// SyncDir implements device.Device.
func (s *session) SyncDir() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if err := s.enterLocked("sync", "", false); err != nil {
		return err
	}
	s.d.syncNamesLocked()
	return nil
}

// Space implements device.Device.
func (s *session) Space() (device.Space, error) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.endedLocked(); err != nil {
		return device.Space{}, err
	}
	total := d.cfg.CapacityBytes
	if total == 0 {
		total = 1 << 50
	}
	return device.Space{TotalBytes: total, FreeBytes: max(0, total-d.usedBytesLocked())}, nil
}

// Close implements device.Device. After Kill it waits for the goroutines and
// answers ErrKilled. Files left open are closed and reported as an error.
func (s *session) Close() error {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.closed {
		return device.ErrClosed
	}
	s.closed = true
	for s.running > 0 {
		d.changed.Wait()
	}
	if s.killed {
		return ErrKilled
	}
	var open []string
	for f := range s.files {
		f.closed = true
		open = append(open, f.name)
	}
	d.session = nil
	if open != nil {
		slices.Sort(open)
		return fmt.Errorf("sim: files were left open: %q", open)
	}
	return nil
}
