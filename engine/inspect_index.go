package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// IndexItem is one entry of the index folder.
type IndexItem struct {
	Kind        string    `json:"kind"`                  // block, applied, data-synced, clean, quarantine, suspect, unknown
	Namespace   uint32    `json:"namespace,omitempty"`   // of a block: number in the store file
	Incarnation uint32    `json:"incarnation,omitempty"` // of a block's namespace
	Position    uint64    `json:"position,omitempty"`    // of the put; of applied and data-synced: everything up to here
	Put         *PutFacts `json:"put,omitempty"`         // the block
	Place       string    `json:"place,omitempty"`       // of a quarantine
	From        uint64    `json:"from,omitempty"`        // suspect: positions above
	To          uint64    `json:"to,omitempty"`          // suspect: and up to here were unsynced at an unclean stop
	Cause       error     `json:"-"`                     // the entry is damaged
}

// InspectIndex reads a store's index folder and calls each for every entry, in
// the order of keys, until it returns false. It writes nothing and takes no
// lock: nobody may have the store open. An index whose own structure is damaged
// ends in an error that matches ErrCorrupt, a folder without an index in one
// that matches ErrNotAStore.
func InspectIndex(dir string, each func(IndexItem) bool) error {
	found, err := IsIndex(dir)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: %s holds no index", ErrNotAStore, dir)
	}
	// Pebble may end the goroutine that found damage; that must not be ours.
	log := &inspectLogger{}
	err = errIndexFailed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = readIndex(dir, log, each)
	}()
	<-ended
	switch {
	case errors.Is(err, errIndexFailed):
		return fmt.Errorf("%w: index %s: %s", ErrCorrupt, dir, log.text())
	case err == nil || systemTrouble(err):
		return err
	}
	return fmt.Errorf("%w: index %s: %w", ErrCorrupt, dir, err)
}

// systemTrouble reports whether the system refused a call. A file that is not
// there is none: the index wants all of its files.
func systemTrouble(err error) bool {
	_, refused := errors.AsType[*fs.PathError](err)
	return refused && !errors.Is(err, fs.ErrNotExist)
}

// IsIndex reports whether dir is a folder with an index in it.
func IsIndex(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "marker.manifest.") || strings.HasPrefix(e.Name(), "MANIFEST-") {
			return true, nil
		}
	}
	return false, nil
}

func readIndex(dir string, log pebble.Logger, each func(IndexItem) bool) (err error) {
	o := &pebble.Options{FS: readOnlyFS{vfs.Default}, ReadOnly: true, DisableWAL: true, ErrorIfNotExists: true, MaxOpenFiles: 64,
		FormatMajorVersion: indexFormatPinned, Logger: log,
		// By default Pebble ends the process here; the iterator tells as well.
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}}
	o.EnsureDefaults()
	db, err := pebble.Open(filepath.Clean(dir), o)
	if err != nil {
		return err
	}
	it, err := db.NewIter(nil)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	for ok := it.First(); ok; ok = it.Next() {
		if !each(indexItem(it.Key(), it.Value())) {
			break
		}
	}
	return errors.Join(it.Error(), it.Close(), db.Close())
}

// indexItem puts one entry into words; its key aliases value.
func indexItem(key, value []byte) IndexItem {
	damaged := func(err error) IndexItem { return IndexItem{Kind: "unknown", Cause: err} }
	switch {
	case len(key) > 0 && key[0] == prefixBlock:
		e, err := decodeIndexEntry(key, value)
		if err != nil {
			return damaged(err)
		}
		return IndexItem{Kind: "block", Namespace: e.namespace, Incarnation: e.incarnation, Position: e.position,
			Put: &PutFacts{idText(e.id), e.place.String(), fmt.Sprintf("%016x", e.checksum), e.depth, e.importance, e.group, e.key}}
	case len(key) > 0 && key[0] == prefixQuarantine:
		p, err := decodeQuarantineKey(key)
		if err != nil {
			return damaged(err)
		}
		return IndexItem{Kind: "quarantine", Place: p.String()}
	case len(key) == 9 && key[0] == prefixSuspect && len(value) == 8:
		return IndexItem{Kind: "suspect", From: binary.BigEndian.Uint64(key[1:]), To: binary.BigEndian.Uint64(value)}
	case isAges(key, value):
		return IndexItem{Kind: "ages"}
	case string(key) == string(keyApplied) && len(value) == 8:
		return IndexItem{Kind: "applied", Position: binary.LittleEndian.Uint64(value)}
	case string(key) == string(keyDataSynced) && len(value) == 8:
		return IndexItem{Kind: "data-synced", Position: binary.LittleEndian.Uint64(value)}
	case string(key) == string(keyClean) && len(value) == 8:
		return IndexItem{Kind: "clean"}
	}
	return damaged(fmt.Errorf("%w: index entry %.40q with a value of %d bytes", ErrCorrupt, key, len(value)))
}

// inspectLogger keeps the last complaint; Fatalf may not return.
type inspectLogger struct{ last atomic.Pointer[string] }

func (*inspectLogger) Infof(string, ...any) {}

func (l *inspectLogger) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.last.Store(&text)
}

func (l *inspectLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	runtime.Goexit()
}

func (l *inspectLogger) text() string {
	if text := l.last.Load(); text != nil {
		return *text
	}
	return errIndexFailed.Error()
}

// readOnlyFS lets Pebble read and refuses everything else.
type readOnlyFS struct{ vfs.FS }

var errInspecting = fmt.Errorf("inspection never writes: %w", fs.ErrPermission)

// List leaves the library's options out: it would refuse the index for damage in
// what nobody needs.
func (f readOnlyFS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, optionsPrefix) }), err
}

func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errInspecting }

func (readOnlyFS) Link(string, string) error { return errInspecting }

func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errInspecting
}

func (readOnlyFS) Remove(string) error { return errInspecting }

func (readOnlyFS) RemoveAll(string) error { return errInspecting }

func (readOnlyFS) Rename(string, string) error { return errInspecting }

func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errInspecting
}

func (readOnlyFS) MkdirAll(string, os.FileMode) error { return errInspecting }

// Lock takes none: the lock file would have to be created.
func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap hides the file system below, so that nobody goes around this one.
func (readOnlyFS) Unwrap() vfs.FS { return nil }
