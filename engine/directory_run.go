package engine

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/wal"
)

// directoryRun is the writing of one directory.
type directoryRun struct {
	s    *Store
	g    *segment
	quit <-chan struct{} // nil: never

	file  device.File
	first []byte // page 0, written last: it says that the others are there
	pages []byte // consecutive pages to write
	at    uint32 // number of the first of them
	used  int    // bytes of pages in use

	writing bool // a block was left out because it was being written
}

func (r *directoryRun) write() error {
	s, g := r.s, r.g
	s.mu.Lock()
	if !r.aliveLocked() {
		s.mu.Unlock()
		return errDirectoryStopped
	}
	r.file = g.file
	position := uint64(s.wal.Last())
	changes, full := g.directory.changes, g.free == 0
	s.mu.Unlock()

	// The position must never be used again, not even after a power cut: a
	// deletion is told from an older directory by it.
	if err := s.wal.Sync(wal.Position(position)); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	buf := device.AlignedBuffer((1+directoryWritePages)*directoryPageBytes, directoryPageBytes)
	r.first, r.pages, r.at = buf[:directoryPageBytes], buf[directoryPageBytes:], 1
	packer := newDirectoryPacker(&g.header, position, int(g.header.slots), r.page)
	for slot := uint32(0); slot < g.header.slots; slot += directorySlots {
		entries, err := r.entries(slot, min(slot+directorySlots, g.header.slots))
		if err != nil {
			return err
		}
		packer.toCome = len(entries) + int(g.header.slots-min(slot+directorySlots, g.header.slots)) // at most
		for _, e := range entries {
			if err := packer.add(e); err != nil {
				return err
			}
		}
	}
	err := packer.flush()
	if err == nil {
		err = r.flush()
	}
	if err == nil {
		err = r.put(0, r.first)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.dirty = true
	g.directory.position = position
	g.directory.changes -= changes
	g.directory.full = g.directory.full || full && !r.writing
	return nil
}

func (r *directoryRun) aliveLocked() bool {
	select {
	case <-r.quit:
		return false
	default:
	}
	return r.s.segments[r.g.header.number] == r.g && !r.g.leaving
}

// entries describes the present blocks of some slots. Their keys are those of recent
// puts, or come from the index as far as it knows them already.
func (r *directoryRun) entries(from, to uint32) (entries []directoryEntry, err error) {
	s, newest := r.s, uint64(0)
	text := make([]byte, 0, (to-from)*recentKeyBytes)
	var unnamed []*directoryEntry
	entries = make([]directoryEntry, 0, to-from)
	s.mu.Lock()
	if !r.aliveLocked() {
		s.mu.Unlock()
		return nil, errDirectoryStopped
	}
	for slot := from; slot < to; slot++ {
		if ref := r.g.owner[slot]; isBlock(ref) {
			rec := s.table.At(ref)
			if rec.State() != statePresent {
				r.writing = true
				continue
			}
			entries = append(entries, directoryEntry{slot: slot, id: rec.ID, position: rec.Position(),
				checksum: rec.Checksum, depth: rec.Depth, importance: rec.Importance})
			e := &entries[len(entries)-1]
			if group, key, ok := s.recent.find(rec.Position()); ok {
				text = append(text, key...)
				e.group, e.key = group, text[len(text)-len(key):]
			} else {
				newest = max(newest, rec.Position())
				unnamed = append(unnamed, e)
			}
		}
	}
	s.mu.Unlock()
	if len(unnamed) == 0 {
		return entries, nil
	}
	r.awaitApplied(newest)
	h := &r.g.header
	return entries, s.index.trouble.guard(func() error { return s.index.name(h.namespace, h.incarnation, unnamed) })
}

// awaitApplied gives the applier a moment to reach position: what it has not
// brought into the index by then stays without its key.
func (r *directoryRun) awaitApplied(position uint64) {
	const pause, tries = 5 * time.Millisecond, 40
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for range tries {
		if r.s.apply.reached.Load() >= position {
			return
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-r.quit:
			return
		}
	}
}

// page takes a finished page from the packer.
func (r *directoryRun) page(number uint32, page []byte) error {
	if number == 0 {
		copy(r.first, page)
		return nil
	}
	copy(r.pages[r.used:], page)
	if r.used += len(page); r.used < len(r.pages) {
		return nil
	}
	return r.flush()
}

// flush writes the pages gathered.
func (r *directoryRun) flush() error {
	if r.used == 0 {
		return nil
	}
	err := r.put(r.at, r.pages[:r.used])
	r.at += uint32(r.used / directoryPageBytes)
	r.used = 0
	return err
}

func (r *directoryRun) put(page uint32, b []byte) error {
	offset := r.g.header.directoryOffset() + int64(page)*directoryPageBytes
	return device.Do(r.s.dev, &device.Op{Kind: device.Write, File: r.file, Offset: offset, Bufs: [][]byte{b}})
}

// findDirectory reads the first page of a segment's directory, which was
// written after the others.
func (s *Store) findDirectory(g *segment) (d directoryState) {
	page := device.AlignedBuffer(directoryPageBytes, directoryPageBytes)
	h := &g.header
	err := device.Do(s.dev, &device.Op{Kind: device.Read, File: g.file, Offset: h.directoryOffset(), Bufs: [][]byte{page}})
	if err != nil || allZero(page) {
		return d
	}
	p, err := decodeDirectoryPage(page)
	if err != nil || p.segment != h.number || p.page != 0 || p.incarnation != h.incarnation {
		return d
	}
	d.position, d.full = p.position, true
	return d
}
