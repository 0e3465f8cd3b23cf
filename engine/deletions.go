package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/wal"
)

// The file DELETES (docs/format/store.md) holds the log position of the newest
// deletion. A directory older than that may name a block that was deleted
// since, long after the log has forgotten it: a rebuild must not use it.
const (
	deletionsName    = "DELETES"
	deletionsMagic   = "SPWYDEL1"
	deletionsVersion = 1
	deletionsBytes   = 4096
)

// encodeDeletions fills one page.
func encodeDeletions(b []byte, storeID [16]byte, position uint64) {
	clear(b)
	copy(b, deletionsMagic)
	binary.LittleEndian.PutUint32(b[12:], deletionsVersion)
	copy(b[16:], storeID[:])
	binary.LittleEndian.PutUint64(b[32:], position)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
}

// decodeDeletions tells another version (ErrVersion) from damage (ErrCorrupt).
func decodeDeletions(b []byte, storeID [16]byte) (position uint64, err error) {
	bad := func(format string, args ...any) (uint64, error) {
		return 0, fmt.Errorf("%w: file %s "+format, append([]any{ErrCorrupt, deletionsName}, args...)...)
	}
	switch {
	case len(b) != deletionsBytes:
		return bad("has %d bytes", len(b))
	case string(b[:8]) != deletionsMagic:
		return bad("has no magic")
	case crc32.Checksum(b[12:], castagnoli) != binary.LittleEndian.Uint32(b[8:]):
		return bad("fails its checksum")
	}
	if v := binary.LittleEndian.Uint32(b[12:]); v != deletionsVersion {
		return 0, fmt.Errorf("%w: file %s has format %d, this program reads %d", ErrVersion, deletionsName, v, deletionsVersion)
	}
	if [16]byte(b[16:32]) != storeID {
		return bad("belongs to store %x", b[16:32])
	}
	return binary.LittleEndian.Uint64(b[32:]), nil
}

// deletions is the open file. Writes are serialised; each covers everybody who
// asked before it.
type deletions struct {
	file device.File

	asked sync.Mutex // guards want; taken last of all locks
	want  uint64     // the newest deletion

	// writing holds a token while somebody writes; it guards what follows. It is
	// no mutex, so that virtual time goes on while others wait for the write.
	writing chan struct{}
	page    []byte
	durable uint64
}

// readDeletions reads the position of the newest deletion; fs.ErrNotExist if
// there is no file.
func readDeletions(dev device.Device, storeID [16]byte) (device.File, uint64, error) {
	f, err := dev.Open(deletionsName)
	if err != nil {
		return nil, 0, err
	}
	page := device.AlignedBuffer(deletionsBytes, deletionsBytes)
	if f.SizeBytes() != deletionsBytes {
		return f, 0, fmt.Errorf("%w: file %s has %d bytes", ErrCorrupt, deletionsName, f.SizeBytes())
	}
	if err := device.Do(dev, &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{page}}); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return f, 0, err
	}
	position, err := decodeDeletions(page, storeID)
	return f, position, err
}

// openDeletions reads the file. Without a sound one mendDeletions has to write
// it anew once the log's end is known.
func (s *Store) openDeletions() (sound bool, err error) {
	d := &s.deletions
	d.page = device.AlignedBuffer(deletionsBytes, deletionsBytes)
	d.writing = make(chan struct{}, 1)
	var position uint64
	d.file, position, err = readDeletions(s.dev, s.id)
	switch {
	case err == nil:
		d.want, d.durable = position, position
		// A killed process may have left it in the drive's cache only.
		err = errors.Join(device.Do(s.dev, &device.Op{Kind: device.Sync, File: d.file}), s.dev.SyncDir())
		if err != nil {
			return false, fmt.Errorf("sync %s: %w", deletionsName, err)
		}
		return true, nil
	case errors.Is(err, ErrVersion):
		return false, err
	case errors.Is(err, fs.ErrNotExist):
		if len(s.segments) > 0 {
			s.log.Error("the record of deletions is missing; directories written up to now are not used in a rebuild", "file", deletionsName)
		}
		return false, nil
	}
	if len(s.segments) > 0 { // else it is what is left of a first start that was cut short
		s.log.Error("the record of deletions is damaged; directories written up to now are not used in a rebuild", "file", deletionsName, "cause", err)
	}
	return false, nil
}

// mendDeletions writes the file anew: no directory from before the position
// will be used.
func (s *Store) mendDeletions(position uint64) (err error) {
	d := &s.deletions
	if d.file != nil && d.file.SizeBytes() != deletionsBytes {
		if err := errors.Join(d.file.Close(), s.dev.Remove(deletionsName)); err != nil {
			return err
		}
		d.file = nil
	}
	if d.file == nil {
		if d.file, err = s.dev.Create(deletionsName, deletionsBytes); err != nil {
			return fmt.Errorf("create %s: %w", deletionsName, err)
		}
	}
	s.deletions.durable = 0
	return errors.Join(s.noteDeletion(position), s.dev.SyncDir())
}

// noteDeletion makes the position of a deletion durable. A failed write or sync
// is an error of this deletion; the next one writes the page again.
func (s *Store) noteDeletion(position uint64) error {
	d := &s.deletions
	d.asked.Lock()
	d.want = max(d.want, position)
	d.asked.Unlock()
	d.writing <- struct{}{}
	defer func() { <-d.writing }()
	if position > 0 && d.durable >= position {
		return nil // somebody's write covered it
	}
	want := s.lastDeletion()
	encodeDeletions(d.page, s.id, want)
	err := device.Do(s.dev, &device.Op{Kind: device.Write, File: d.file, Bufs: [][]byte{d.page}, First: true})
	if err == nil {
		err = device.Do(s.dev, &device.Op{Kind: device.Sync, File: d.file})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", deletionsName, err)
	}
	d.durable = want
	return nil
}

// syncDeletion makes a deletion durable: in the log, and then, against a rebuild
// of the index, in its own file. In this order a position there that the log
// does not reach means that the log has lost what it had promised.
func (s *Store) syncDeletion(position uint64) error {
	if err := s.syncLog(position); err != nil {
		return err
	}
	return s.noteDeletion(position)
}

// closeDeletions closes the file.
func (s *Store) closeDeletions() error {
	if s.deletions.file == nil {
		return nil
	}
	return s.deletions.file.Close()
}

// lastDeletion is the position of the newest deletion.
func (s *Store) lastDeletion() uint64 {
	s.deletions.asked.Lock()
	defer s.deletions.asked.Unlock()
	return s.deletions.want
}

// mendGaps deals with damage in the middle of the log.
func (s *Store) mendGaps(gaps []wal.Gap) error {
	for _, gap := range gaps {
		s.log.Error("the log is damaged in the middle", "after", gap.After, "before", gap.Before, "deletions_lost", gap.BarrierLost, "cause", gap.Cause)
		if gap.BarrierLost {
			if err := s.giveUpBefore(uint64(gap.Before)); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveUpBefore removes every index entry put before position: a deletion among
// the lost records may have named any of them.
func (s *Store) giveUpBefore(position uint64) error {
	b := s.index.db.NewBatch()
	defer b.Close()
	err := s.index.scan([]byte{prefixBlock}, func(key, value []byte) error {
		e, err := decodeIndexEntry(key, value)
		if err == nil && e.position >= position {
			return nil
		}
		s.counters.LostBlocks++
		return b.Delete(key, nil)
	})
	return errors.Join(err, b.Commit(pebble.NoSync))
}
