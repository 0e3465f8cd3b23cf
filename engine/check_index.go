package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkedIndex is what was found of the index.
type checkedIndex struct {
	folder  string // in the directory; empty: there is none
	known   bool   // applied was read
	applied uint64 // log position that the entries show
	sound   bool   // all of it could be read
	synced  uint64 // block data up to here is on stable media
	// manifestTorn is how its list of files ends early, as a power cut may leave it.
	manifestTorn string
}

const indexMeans = "the store does not open with it; a rebuild makes a new index"

// checkIndex reads all files of the index and all of its entries.
func (c *checker) checkIndex() error {
	folder, err := c.findIndex()
	if err != nil {
		return err
	}
	if folder == "" {
		if len(c.segments) > 0 || slices.ContainsFunc(c.names, isLogName) {
			c.damage(indexFolder, -1, "the index is missing", "an open store would begin a new one, without the blocks; a rebuild restores them")
		}
		return nil
	}
	c.index.folder = folder
	trouble := newIndexTrouble(c.o.Logger)
	path := c.indexPath(folder)
	if err := c.checkIndexNames(path); err != nil {
		return err
	}
	before := c.report.Damage
	c.checkManifest(path)
	err = trouble.guard(func() error { return c.readIndexFiles(path, trouble) })
	if err != nil && errors.Is(err, c.ctx.Err()) && c.ctx.Err() != nil {
		return err
	}
	if err != nil {
		c.damage(folder, -1, err.Error(), indexMeans)
	}
	c.index.sound = c.report.Damage == before && c.index.known
	return nil
}

func isLogName(name string) bool { return strings.HasPrefix(name, "wal-") }

// findIndex names the folder that an open would use.
func (c *checker) findIndex() (string, error) {
	for _, folder := range []string{indexFolder, indexNewFolder} {
		names, err := c.fs.List(c.indexPath(folder))
		if err != nil {
			if _, statErr := c.fs.Stat(c.indexPath(folder)); statErr == nil {
				return "", fmt.Errorf("list %s: %w", folder, err)
			}
			continue
		}
		made := slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "marker.manifest.") || strings.HasPrefix(name, "MANIFEST-")
		})
		if made || len(c.segments) > 0 {
			return folder, nil
		}
	}
	return "", nil
}

// readIndexFiles opens the index for reading only and reads everything.
func (c *checker) readIndexFiles(path string, trouble *indexTrouble) (err error) {
	fs := readOnlyFS{c.fs}
	o := &pebble.Options{FS: fs, ReadOnly: true, DisableWAL: true, ErrorIfNotExists: true, MaxOpenFiles: 64,
		FormatMajorVersion: indexFormatPinned, Logger: trouble, EventListener: trouble.listener()}
	o.EnsureDefaults()
	db, err := pebble.Open(path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	for _, level := range levels {
		for _, table := range level {
			name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
			if err := checkTable(fs, fs.PathJoin(path, name)); err != nil {
				c.damage(c.index.folder+"/"+name, -1, err.Error(), indexMeans)
			}
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
	}
	if err := c.readEntries(db); err != nil {
		return err
	}
	if c.index.manifestTorn != "" && c.report.Clean {
		c.damage(c.index.folder, -1, "manifest: "+c.index.manifestTorn, indexMeans)
	}
	return nil
}

// checkTable verifies the checksum of every block of one file.
func checkTable(fs vfs.FS, path string) (err error) {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// readEntries reads all entries into blocks.
func (c *checker) readEntries(db *pebble.DB) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := c.readEntry(it.Key(), it.Value()); err != nil {
			c.damage(c.index.folder, -1, err.Error(), "the entry is ignored; a block that it names is a miss")
		}
	}
	for name, b := range c.blocks.named {
		b.seen = c.index.applied
		c.blocks.named[name] = b
	}
	return errors.Join(it.Error(), it.Close())
}

func (c *checker) readEntry(key, value []byte) error {
	unknown := fmt.Errorf("%w: index entry %.40q with a value of %d bytes", ErrCorrupt, key, len(value))
	if len(key) == 0 {
		return unknown
	}
	switch key[0] {
	case prefixAges[0]:
		if !isAges(key, value) {
			return unknown
		}
		return nil
	case prefixBlock:
		e, err := decodeIndexEntry(key, value)
		if err != nil {
			return err
		}
		return c.keepEntry(&e)
	case prefixQuarantine:
		p, err := decodeQuarantineKey(key)
		if err != nil {
			return err
		}
		c.blocks.bad[p] = true
		return nil
	case prefixSuspect:
		if len(key) != 9 || len(value) != 8 {
			return unknown
		}
		c.suspect = append(c.suspect, suspectRange{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(value)})
		return nil
	case prefixMeta:
		if len(value) != 8 {
			return unknown
		}
		n := binary.LittleEndian.Uint64(value)
		switch string(key) {
		case string(keyApplied):
			c.index.applied, c.index.known = n, true
			return nil
		case string(keyDataSynced):
			c.index.synced = n
			return nil
		case string(keyClean):
			c.report.Clean = true
			return nil
		}
	}
	return unknown
}

func (c *checker) keepEntry(e *indexEntry) error {
	if e.namespace == 0 || int(e.namespace) > len(c.namespaces) {
		return fmt.Errorf("%w: index entry of namespace %d, which the store file does not have", ErrCorrupt, e.namespace)
	}
	if !c.namespaces[e.namespace-1].named(e.id, e.incarnation, e.group, e.key) {
		return fmt.Errorf("%w: index entry for %v whose ID is not that of its key", ErrCorrupt, e.place)
	}
	c.blocks.add(*e, 0)
	return nil
}
