package device

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// null is a device whose transfers move nothing. Everything else is real: the
// queue, the workers, the rings with their system calls and their goroutines.
type null struct {
	*psync
	mu    sync.Mutex
	files map[string]nullFile
}

type nullFile struct {
	sizeBytes int64
	content   []byte // of WriteFile
}

// NewNull opens a device in memory that completes every Op without moving a
// byte: a Read leaves its memory as it was, not even zeroed, and nothing can be
// read back. With io_uring each Op is a request that does nothing, without it a
// worker answers; so what a benchmark measures is our own cost per Op.
//
// Names, sizes and the contents of WriteFile are kept until Close, attributes
// are not supported, and Space is without end. That is enough to drive Ops, not
// to keep a store. Of Options, Engine, Rings, QueueDepth, QueueOps and Logger
// count, with the meanings and errors of OpenDir.
func NewNull(o Options) (Device, error) { return newNull(o, realRings) }

func newNull(o Options, setup ringSetup) (Device, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	d := &psync{dir: "null", options: o.withDefaults(), calls: kernelCalls}
	d.work.L, d.idle.L = &d.mu, &d.mu
	d.facts = Facts{FileSystem: "none", Direct: true, Preallocate: true, QueueOps: d.options.QueueOps,
		MemAlignBytes: defaultAlignBytes, OffsetAlignBytes: defaultAlignBytes}
	d.punch = true
	setup.nop = true
	if err := d.openRings(setup); err != nil {
		return nil, err
	}
	d.facts.Device = "null"
	d.startWorkers()
	return &null{psync: d, files: map[string]nullFile{}}, nil
}

// locked runs work with the names locked, on an open device and good names.
func (d *null) locked(work func() error, names ...string) error {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(names...); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return work()
}

func missing(name string) error {
	return fmt.Errorf("device null: file %s: %w", name, fs.ErrNotExist)
}

// Create implements Device.
func (d *null) Create(name string, sizeBytes int64) (opened File, err error) {
	err = d.locked(func() error {
		if sizeBytes < 0 {
			return fmt.Errorf("device null: size of %s is %d: %w", name, sizeBytes, fs.ErrInvalid)
		}
		if _, exists := d.files[name]; exists {
			return fmt.Errorf("device null: file %s: %w", name, fs.ErrExist)
		}
		d.files[name] = nullFile{sizeBytes: sizeBytes}
		opened = d.openFile(name, sizeBytes)
		return nil
	}, name)
	return opened, err
}

// openFile is a file without a descriptor.
func (d *null) openFile(name string, sizeBytes int64) File {
	d.countFile(1)
	return &file{d: d.psync, fd: -1, name: name, sizeBytes: sizeBytes}
}

// Open implements Device.
func (d *null) Open(name string) (opened File, err error) {
	err = d.locked(func() error {
		f, exists := d.files[name]
		if !exists {
			return missing(name)
		}
		opened = d.openFile(name, f.sizeBytes)
		return nil
	}, name)
	return opened, err
}

// Remove implements Device.
func (d *null) Remove(name string) error {
	return d.locked(func() error {
		if _, exists := d.files[name]; !exists {
			return missing(name)
		}
		delete(d.files, name)
		return nil
	}, name)
}

// Rename implements Device.
func (d *null) Rename(oldName, newName string) error {
	return d.locked(func() error {
		f, exists := d.files[oldName]
		if !exists {
			return missing(oldName)
		}
		delete(d.files, oldName)
		d.files[newName] = f
		return nil
	}, oldName, newName)
}

// List implements Device.
func (d *null) List() (names []string, err error) {
	err = d.locked(func() error {
		names = slices.Sorted(maps.Keys(d.files))
		return nil
	})
	return names, err
}

// ReadFile implements Device: only what WriteFile wrote is there.
func (d *null) ReadFile(name string) (data []byte, err error) {
	err = d.locked(func() error {
		f, exists := d.files[name]
		if !exists {
			return missing(name)
		}
		data = slices.Clone(f.content)
		return nil
	}, name)
	return data, err
}

// WriteFile implements Device.
func (d *null) WriteFile(name string, data []byte) error {
	return d.locked(func() error {
		d.files[name] = nullFile{int64(len(data)), slices.Clone(data)}
		return nil
	}, name)
}

// SyncDir implements Device.
func (d *null) SyncDir() error { return d.locked(func() error { return nil }) }

// Space implements Device.
func (d *null) Space() (Space, error) {
	const endless = 1 << 60
	return Space{endless, endless}, d.locked(func() error { return nil })
}
