package sim

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// FlipBit flips one bit (0..7) of the byte at offset of the named file, for
// good. Tests damage the medium with it, whether a session is open or not.
func (d *Disk) FlipBit(name string, offset int64, bit uint) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.fileLocked("flip", name)
	if err != nil {
		return err
	}
	if offset < 0 || offset >= ino.size || bit > 7 {
		return fmt.Errorf("sim: no bit %d at offset %d of %s, which has %d bytes", bit, offset, name, ino.size)
	}
	ino.flipBit(offset, bit)
	return nil
}

// Truncate sets the size of the named file, for good: it cuts the end off or
// adds zeros.
func (d *Disk) Truncate(name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.fileLocked("truncate", name)
	if err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: name, Err: fs.ErrInvalid}
	}
	ino.truncate(size)
	ino.stableSize = size
	return nil
}

// Bytes returns a copy of the named file, as a process sees it now.
func (d *Disk) Bytes(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.fileLocked("read", name)
	if err != nil {
		return nil, err
	}
	return ino.content(), nil
}

// Names returns the names of the files, sorted, as a process sees them now.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sortedNamesLocked()
}

func (d *Disk) fileLocked(op, name string) (*inode, error) {
	ino := d.names[name]
	if ino == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return ino, nil
}

// Clone copies the medium as it is, without the session: what the next process
// would find after Kill with no op in flight landing, and, after PowerCut of
// the copy, what it could find after a power cut; Reseed the copy to see another
// outcome. The copy has the plan and no counts. Neither disk changes the other.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Disk{cfg: d.cfg, plan: d.plan, lastInode: d.lastInode}
	source := *d.source
	c.source, c.rng = &source, rand.New(&source)
	c.changed = sync.NewCond(&c.mu)
	copies := map[*inode]*inode{}
	for _, ino := range d.inodesLocked() {
		copies[ino] = ino.clone()
	}
	translate := func(names map[string]*inode) map[string]*inode {
		names = maps.Clone(names)
		for name, ino := range names {
			names[name] = copies[ino]
		}
		return names
	}
	c.names, c.stable = translate(d.names), translate(d.stable)
	c.journal = slices.Clone(d.journal)
	for i := range c.journal {
		c.journal[i].ino = copies[c.journal[i].ino]
	}
	return c
}

// Attrs returns the names of the named file's attributes, sorted, as a process
// sees them now.
func (d *Disk) Attrs(name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.fileLocked("listattr", name)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(ino.attrs)), nil
}
