package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/pkg/xattr"
	"golang.org/x/sys/unix"
)

const attrPrefix = "user.spillway."

// file is one open file of a psync device.
type file struct {
	d         *psync
	f         *os.File // nil for a file of the null device
	fd        int
	name      string
	sizeBytes int64
	place     int // in the rings' tables of files; 0 for none

	// Guarded by d.mu.
	closed bool
	users  int // ops queued or in flight, and calls that use f
}

// Create implements Device.
func (d *psync) Create(name string, sizeBytes int64) (File, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(name); err != nil {
		return nil, err
	}
	if sizeBytes < 0 {
		return nil, fmt.Errorf("device: size of %q is %d: %w", name, sizeBytes, fs.ErrInvalid)
	}
	f := &file{d: d, name: name, sizeBytes: sizeBytes}
	if err := d.apart(f.create); err != nil {
		return nil, d.where(err)
	}
	d.countFile(1)
	d.rings.addFile(f)
	return f, nil
}

// create makes the file with its space.
func (f *file) create() error {
	opened, err := f.d.root.OpenFile(f.name, os.O_RDWR|os.O_CREATE|os.O_EXCL|f.d.openFlags(), 0o640)
	if err != nil {
		return err
	}
	f.f, f.fd = opened, int(opened.Fd())
	if err := f.reserve(); err != nil {
		_ = opened.Close()
		_ = f.d.root.Remove(f.name)
		return err
	}
	return nil
}

// reserve gives a new file its size and space.
func (f *file) reserve() error {
	if f.sizeBytes == 0 {
		return nil
	}
	if f.d.facts.Preallocate {
		err := retry(func() error { return unix.Fallocate(f.fd, 0, 0, f.sizeBytes) })
		if err != nil {
			return pathError("fallocate", f.name, err)
		}
		return nil
	}
	align := int64(f.d.facts.OffsetAlignBytes)
	if f.sizeBytes > int64(1)<<62 {
		return pathError("fill", f.name, syscall.EFBIG)
	}
	if _, err := new(vector).zero(f, 0, (f.sizeBytes+align-1)/align*align); err != nil {
		return err
	}
	if err := f.f.Truncate(f.sizeBytes); err != nil {
		return err
	}
	return f.f.Sync() // a file system may notice only now that it is full
}

// Open implements Device.
func (d *psync) Open(name string) (File, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(name); err != nil {
		return nil, err
	}
	f := &file{d: d, name: name}
	if err := d.apart(f.open); err != nil {
		return nil, d.where(err)
	}
	d.countFile(1)
	d.rings.addFile(f)
	return f, nil
}

// open opens an existing file.
func (f *file) open() error {
	opened, err := f.d.root.OpenFile(f.name, os.O_RDWR|f.d.openFlags(), 0)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = pathError("open", f.name, errors.New("not a regular file"))
	}
	if err != nil {
		_ = opened.Close()
		return err
	}
	f.f, f.fd, f.sizeBytes = opened, int(opened.Fd()), info.Size()
	return nil
}

func (d *psync) openFlags() int {
	if d.facts.Direct {
		return syscall.O_DIRECT
	}
	return 0
}

func (d *psync) countFile(change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.openFiles += change
}

// Name implements File: the name it was opened by.
func (f *file) Name() string { return f.name }

// SizeBytes implements File: the size when it was opened.
func (f *file) SizeBytes() int64 { return f.sizeBytes }

// hold keeps f open until letGo.
func (f *file) hold() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return fmt.Errorf("%w: file %s", ErrClosed, f.name)
	}
	f.users++
	return nil
}

func (f *file) letGo() {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.letGoLocked()
}

func (f *file) letGoLocked() {
	f.users--
	if f.closed && f.users == 0 {
		f.d.idle.Broadcast()
	}
}

// SetAttr implements File.
func (f *file) SetAttr(name string, value []byte) error {
	if err := f.hold(); err != nil {
		return err
	}
	defer f.letGo()
	if !f.d.facts.Xattrs {
		return fmt.Errorf("device: attributes of %s: %w", f.name, errors.ErrUnsupported)
	}
	return f.d.where(f.d.apart(func() error { return xattr.FSet(f.f, attrPrefix+name, value) }))
}

// Attr implements File.
func (f *file) Attr(name string) ([]byte, error) {
	if err := f.hold(); err != nil {
		return nil, err
	}
	defer f.letGo()
	if !f.d.facts.Xattrs {
		return nil, fmt.Errorf("device: attributes of %s: %w", f.name, errors.ErrUnsupported)
	}
	var value []byte
	err := f.d.apart(func() (err error) {
		value, err = xattr.FGet(f.f, attrPrefix+name)
		return err
	})
	if errors.Is(err, xattr.ENOATTR) {
		return nil, fmt.Errorf("device: attribute %s of %s: %w", name, f.name, fs.ErrNotExist)
	}
	return value, f.d.where(err)
}

// Close implements File. New ops are refused from here on; those in flight end
// first, their Done functions included.
func (f *file) Close() error {
	d := f.d
	d.mu.Lock()
	if f.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	f.closed = true
	for f.users > 0 {
		d.idle.Wait()
	}
	d.openFiles--
	d.mu.Unlock()
	if f.f == nil {
		return nil
	}
	d.rings.dropFile(f)
	return d.where(d.apart(f.f.Close))
}
