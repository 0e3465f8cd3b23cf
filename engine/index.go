package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The durable index (docs/format/index.md) is a Pebble store in the folder
// "index", without Pebble's own log. Its keys, with numbers big endian so that
// they sort:
//
//	'b' ns u32 | incarnation u32 | ID 16 | position u64 -> place u64 | checksum u64 |
//	                                depth u32 | importance u8 | group u32 | key   (little endian;
//	                                no key: its name is lost)
//	'm' "applied"   -> u64: every log record up to here is in the index
//	'm' "datasynced" -> u64: block data up to here is on stable media
//	'm' "clean"    -> u64 1: the store was closed; from Open on it is not there
//	'q' place u64   -> "" : the slot is quarantined
//	's' from u64    -> u64 to: positions in (from, to] were unsynced at an unclean stop
//
// The position in the key makes every put's entry distinct, so that freeing
// one never reaches a later put of the same block.
const (
	indexFolder = "index"
	// Pebble serves opening and the directories' rarer names, no read of a block: its
	// memory is kept small, since it counts against that of the blocks' records.
	indexCacheBytes = 2 << 20
	indexMemtable   = 1 << 20
	// What a full log holds fits into the memtables, so that a file system
	// without room stops neither the applier nor a closing store.
	indexMemtablesMax = 256
	indexLevel0Max    = 1000
	indexKeyBytes     = 1 + 4 + 4 + 16 + 8
	indexFixedValue   = 8 + 8 + 4 + 1 + 4
	suspectRangesMax  = 64
	prefixBlock       = 'b'
	prefixMeta        = 'm'
	prefixQuarantine  = 'q'
	prefixSuspect     = 's'
	indexFormatPinned = pebble.FormatValueSeparation
)

// indexEntryBytesMost is what one block's entry takes of the index's files at most,
// as a rule: with a key of 60 bytes, uncompressed.
const indexEntryBytesMost = 128

var (
	keyApplied    = []byte("mapplied")
	keyDataSynced = []byte("mdatasynced")
	keyClean      = []byte("mclean")

	// errStopScan ends a scan early.
	errStopScan = errors.New("stop")
)

// index wraps Pebble. Only the applier writes to it; listings read snapshots.
type index struct {
	db      *pebble.DB
	trouble *indexTrouble

	// measuring is held while Pebble measures itself, which it cannot do while it
	// closes or after that. It guards what follows.
	measuring  sync.RWMutex
	closed     bool
	finalBytes int64 // on the file system, when it was closed
}

func openIndex(indexFS vfs.FS, dir string, logger *slog.Logger) (*index, error) {
	ix := &index{trouble: newIndexTrouble(logger)}
	cache := pebble.NewCache(indexCacheBytes)
	defer cache.Unref()
	o := &pebble.Options{
		FS:                          pacedFS{indexFS, ix.trouble},
		DisableWAL:                  true,
		Cache:                       cache,
		FormatMajorVersion:          indexFormatPinned,
		MemTableSize:                indexMemtable,
		MemTableStopWritesThreshold: indexMemtablesMax,
		L0StopWritesThreshold:       indexLevel0Max,
		MaxOpenFiles:                64,
		Logger:                      ix.trouble,
		EventListener:               ix.trouble.listener(),
	}
	o.EnsureDefaults()
	err := ix.trouble.guard(func() (err error) {
		if err := ix.removeUnprovenOptions(indexFS, dir); err != nil {
			return err
		}
		ix.db, err = pebble.Open(dir, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, openTrouble(indexFS, dir, err))
	}
	return ix, nil
}

// openTrouble gives an error of opening the index its kind. A file that is not
// there is damage: the library wants all of its files.
func openTrouble(indexFS vfs.FS, dir string, err error) error {
	if err = asCorrupt(err); errors.Is(err, ErrCorrupt) || errors.Is(err, errIndexFailed) {
		return err
	}
	kind := markerTrouble(indexFS, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, pebble.ErrDBNotPristine) { // the second: no marker of the format
		kind = ErrCorrupt
	}
	if kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// asCorrupt lets Pebble's damage match ErrCorrupt.
func asCorrupt(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// close ends Pebble; one that failed is abandoned, since it may hold its locks.
func (ix *index) close() error {
	if ix.trouble.failed.Load() {
		return errIndexFailed
	}
	bytes := ix.diskBytes()
	ix.measuring.Lock()
	ix.closed, ix.finalBytes = true, bytes
	ix.measuring.Unlock()
	return ix.trouble.guard(ix.db.Close)
}

// diskBytes is what the index takes on the file system, or took when it was
// closed.
func (ix *index) diskBytes() int64 {
	ix.measuring.RLock()
	defer ix.measuring.RUnlock()
	if ix.closed || ix.trouble.failed.Load() {
		return ix.finalBytes
	}
	return int64(ix.db.Metrics().DiskSpaceUsage())
}

// fewBlocks is a guess of how many blocks the index's files name, rather low.
func (ix *index) fewBlocks() int {
	from := []byte{prefixBlock}
	n, err := ix.db.EstimateDiskUsage(from, prefixEnd(from))
	if err != nil {
		return 0 // whoever reads the entries says what is wrong
	}
	return int(n / indexEntryBytesMost)
}

// applied is the log position up to which the index is complete; known is
// false in an index that was never used.
func (ix *index) applied() (position uint64, known bool, err error) { return ix.number(keyApplied) }

// number reads a meta value; known is false if there is none.
func (ix *index) number(key []byte) (n uint64, known bool, err error) {
	v, closer, err := ix.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("index: %w", asCorrupt(err))
	}
	defer closer.Close()
	if len(v) != 8 {
		return 0, false, fmt.Errorf("%w: index number %q of %d bytes", ErrCorrupt, key, len(v))
	}
	return binary.LittleEndian.Uint64(v), true, nil
}

func setNumber(b *pebble.Batch, key []byte, n uint64) error {
	return b.Set(key, binary.LittleEndian.AppendUint64(nil, n), nil)
}

func setApplied(b *pebble.Batch, position uint64) error { return setNumber(b, keyApplied, position) }

// scan calls each for every key with the prefix, in order; it stops at an error.
func (ix *index) scan(prefix []byte, each func(key, value []byte) error) error {
	return ix.scanRange(prefix, prefixEnd(prefix), each)
}

// scanRange is scan for the keys from a bound up to, and without, another.
func (ix *index) scanRange(from, to []byte, each func(key, value []byte) error) error {
	it, err := ix.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := each(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(asCorrupt(it.Error()), it.Close())
}

// name gives blocks of a namespace their groups and keys, as far as the index has
// them. It sorts the list by ID: one walk forward reads each part of the index once.
func (ix *index) name(ns, incarnation uint32, blocks []*directoryEntry) error {
	slices.SortFunc(blocks, func(a, b *directoryEntry) int {
		x, y := idBytes(a.id), idBytes(b.id)
		return bytes.Compare(x[:], y[:])
	})
	prefix := dropPrefix(ns, incarnation)
	it, err := ix.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	var key []byte
	for _, b := range blocks {
		key = appendIndexKey(key[:0], ns, incarnation, b.id, b.position)
		if !it.SeekGE(key) && it.Error() != nil {
			break
		}
		if !it.Valid() || !bytes.Equal(it.Key(), key) {
			continue
		}
		e, err := decodeIndexEntry(it.Key(), it.Value())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		b.group, b.key = e.group, bytes.Clone(e.key)
	}
	return errors.Join(asCorrupt(it.Error()), it.Close())
}
