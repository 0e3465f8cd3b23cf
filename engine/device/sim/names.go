package sim

import (
	"maps"
	"slices"
)

// change is one step of the directory that SyncDir has not made durable.
type change struct {
	name    string // the name that gets, loses or gives the file
	newName string // rename: the name that gets it
	ino     *inode
	unlink  bool
	durable bool // made by WriteFile: kept whatever happens
}

// apply does the step. It leaves a directory alone in which the file is not
// where the step expects it, because an earlier step was lost.
func (c change) apply(names map[string]*inode) {
	switch {
	case c.newName != "" && names[c.name] == c.ino:
		delete(names, c.name)
		names[c.newName] = c.ino
	case c.newName != "":
	case c.unlink && names[c.name] == c.ino:
		delete(names, c.name)
	case c.unlink:
	default:
		names[c.name] = c.ino
	}
}

// changeLocked applies c to the directory and notes it for SyncDir.
func (d *Disk) changeLocked(c change) {
	gone := d.names[c.name]
	if c.newName != "" {
		gone = d.names[c.newName]
	}
	if gone != nil {
		gone.linked = false
	}
	c.apply(d.names)
	if !c.unlink {
		c.ino.linked = true
	}
	if c.durable && len(d.journal) == 0 {
		c.apply(d.stable)
		return
	}
	d.journal = append(d.journal, c)
}

// syncNamesLocked makes the directory durable as it is.
func (d *Disk) syncNamesLocked() {
	for _, c := range d.journal {
		c.apply(d.stable)
		if !c.unlink && c.newName == "" {
			c.ino.stableSize = c.ino.size // what Create has preallocated
		}
	}
	d.journal = nil
	for _, ino := range d.names {
		ino.stableAttrs = maps.Clone(ino.attrs)
	}
}

// cutNamesLocked takes from the directory what c says, and makes the rest durable.
func (d *Disk) cutNamesLocked(c *cut) {
	for _, ch := range d.journal {
		if ch.durable || !c.loses() {
			ch.apply(d.stable)
		}
		ch.ino.linked = false
	}
	d.journal = nil
	d.names = maps.Clone(d.stable)
	for _, ino := range d.names {
		ino.linked = true
	}
}

func (d *Disk) newInodeLocked(size int64) *inode {
	d.lastInode++
	return &inode{id: d.lastInode, size: size, pages: map[int64]*page{}}
}

func (d *Disk) sortedNamesLocked() []string { return slices.Sorted(maps.Keys(d.names)) }

// inodesLocked lists every file that has or may get a name, in a fixed order.
func (d *Disk) inodesLocked() []*inode {
	byID := map[uint64]*inode{}
	for _, names := range []map[string]*inode{d.names, d.stable} {
		for _, ino := range names {
			byID[ino.id] = ino
		}
	}
	for _, c := range d.journal {
		byID[c.ino.id] = c.ino
	}
	inodes := make([]*inode, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		inodes = append(inodes, byID[id])
	}
	return inodes
}

// usedBytesLocked is the room taken by the files that have a name or are open.
func (d *Disk) usedBytesLocked() int64 {
	var used int64
	for _, ino := range d.names {
		used += ino.chargedBytes()
	}
	if d.session == nil {
		return used
	}
	open := map[*inode]bool{}
	for f := range d.session.files {
		if !f.ino.linked && !open[f.ino] {
			open[f.ino] = true
			used += f.ino.chargedBytes()
		}
	}
	return used
}

// fitsLocked reports whether needBytes more can be had.
func (d *Disk) fitsLocked(needBytes int64) bool {
	return needBytes <= 0 || d.cfg.CapacityBytes == 0 || needBytes <= d.cfg.CapacityBytes-d.usedBytesLocked()
}
