package engine

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Folders of an index that is being made anew.
const (
	indexBuildingFolder = "index.building" // not whole yet
	indexNewFolder      = "index.new"      // whole, about to become the index
	indexDamagedPrefix  = "index.damaged-" // and a number: what was the index before
)

// fillIndex writes the blocks, the quarantine, and how far the log is in it.
func (c *checker) fillIndex(ix *index, blocks []*indexEntry) error {
	b := ix.db.NewBatch()
	defer func() { _ = b.Close() }() // commits tell
	commit := func() error {
		err := b.Commit(pebble.NoSync)
		b.Reset()
		return err
	}
	for _, e := range blocks {
		value := putRecord{place: e.place, checksum: e.checksum, depth: e.depth, importance: e.importance, group: e.group, key: e.key}
		key := appendIndexKey(nil, e.namespace, e.incarnation, e.id, e.position)
		if err := b.Set(key, appendIndexValue(nil, &value), nil); err != nil {
			return err
		}
		if b.Len() > 1<<20 {
			if err := errors.Join(c.ctx.Err(), commit()); err != nil {
				return err
			}
		}
	}
	for p := range c.blocks.bad {
		if g := c.segments[p.Segment()]; g == nil || p.Slot() >= g.header.slots {
			continue
		}
		if err := b.Set(quarantineKey(p), nil, nil); err != nil {
			return err
		}
	}
	last := c.newest()
	return errors.Join(setApplied(b, last), setNumber(b, keyDataSynced, last), commit(), ix.flush())
}

// syncDir makes renames beside the segments durable.
func (c *checker) syncDir() error { return syncFolder(c.fs, c.indexPath("")) }

func syncFolder(fs vfs.FS, path string) error {
	d, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func exists(fs vfs.FS, path string) bool {
	_, err := fs.Stat(path)
	return err == nil
}

// adoptIndex ends a rebuild that was cut short: a whole new index takes the
// place of one that was moved away, and other leftovers go.
func adoptIndex(fs vfs.FS, dir string) error {
	at := func(folder string) string {
		if parent := fs.PathDir(dir); parent != "." {
			return fs.PathJoin(parent, folder)
		}
		return folder
	}
	ready := at(indexNewFolder)
	if exists(fs, ready) && !exists(fs, dir) {
		if err := errors.Join(fs.Rename(ready, dir), syncFolder(fs, fs.PathDir(dir))); err != nil {
			return fmt.Errorf("take the rebuilt index: %w", err)
		}
	}
	for _, leftover := range []string{ready, at(indexBuildingFolder)} {
		if !exists(fs, leftover) {
			continue
		}
		if err := fs.RemoveAll(leftover); err != nil {
			return fmt.Errorf("remove %s: %w", leftover, err)
		}
	}
	return nil
}
