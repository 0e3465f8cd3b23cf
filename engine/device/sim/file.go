package sim

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/spillway-kv/spillway/engine/device"
)

// file is one open file of a session. The Disk's mutex guards ops and closed.
type file struct {
	s      *session
	name   string // it was opened with
	size   int64  // it was opened with; only Disk.Truncate makes it differ
	ino    *inode
	ops    int // accepted and their Done not yet returned
	closed bool
}

// Name implements device.File.
func (f *file) Name() string { return f.name }

// SizeBytes implements device.File.
func (f *file) SizeBytes() int64 { return f.size }

// enterLocked is enterLocked of the session, for a call on an open file.
func (f *file) enterLocked(op string) error {
	err := f.s.enterLocked(op, f.name, false)
	switch {
	case err != nil:
		return err
	case f.closed:
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	case f.s.d.cfg.NoXattrs:
		return &fs.PathError{Op: op, Path: f.name, Err: errors.ErrUnsupported}
	}
	return nil
}

// SetAttr implements device.File.
func (f *file) SetAttr(name string, value []byte) error {
	f.s.d.mu.Lock()
	defer f.s.d.mu.Unlock()
	if err := f.enterLocked("setattr"); err != nil {
		return err
	}
	if f.ino.attrs == nil {
		f.ino.attrs = map[string][]byte{}
	}
	f.ino.attrs[name] = bytes.Clone(value)
	return nil
}

// Attr implements device.File.
func (f *file) Attr(name string) ([]byte, error) {
	f.s.d.mu.Lock()
	defer f.s.d.mu.Unlock()
	if err := f.enterLocked("getattr"); err != nil {
		return nil, err
	}
	value, ok := f.ino.attrs[name]
	if !ok {
		return nil, &fs.PathError{Op: "getattr", Path: f.name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(value), nil
}

// Close implements device.File. It waits until the Done of every op on the
// file has returned.
func (f *file) Close() error {
	d := f.s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.closed = true
	for f.ops > 0 {
		d.changed.Wait()
	}
	delete(f.s.files, f)
	return nil
}

var _ device.File = (*file)(nil)
