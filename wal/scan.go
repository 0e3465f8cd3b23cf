package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spillway-kv/spillway/engine/device"
)

// item is one thing found in a file: its start, a frame, or a stretch of units
// without a frame.
type item struct {
	seen     seen
	file     int // index into the files of the scan
	offset   int64
	cause    error // of a place without a frame that is not merely empty
	recycled bool  // by the planted fault only: the frame is a left-over

	// Of frames and starts.
	first  Position
	synced Position // promised: everything up to here

	// Of frames.
	fileFirst  Position // first position of the file
	last       Position
	dataSynced Position
	barrier    Position
}

func (it *item) live() bool { return it.seen == seenFrame || it.seen == seenFileStart }

// scanned is what one file holds, in order of offset.
type scanned struct {
	name   string
	number uint64
	size   int64
	header headerState
	hidden bool     // the header cannot be read
	other  uint64   // log number in a spare's header
	first  Position // of the header, or of live frames without one; 0: unknown
	items  []item
}

// scanner reads log files. It writes nothing.
type scanner struct {
	dev     device.Device
	storeID [16]byte
	logger  *slog.Logger
	window  []byte
	faded   map[place]error // frames that were sound once and failed when read again
}

// place is where in the log's files something lies.
type place struct {
	file   string
	offset int64
}

func newScanner(dev device.Device, o Options) (*scanner, error) {
	_, err := alignedUnits(dev, 0)
	return &scanner{dev: dev, storeID: o.StoreID, logger: o.Logger}, err
}

// open opens a file for reading through the scanner's window.
func (s *scanner) open(name string) (device.File, *fileReader, error) {
	f, err := s.dev.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("wal: %w", err)
	}
	r := &fileReader{name: name, bad: map[int64]error{}, size: min(f.SizeBytes(), fileBytesMax) &^ (unitBytes - 1),
		read: func(b []byte, offset int64) error { return readAt(s.dev, f, b, offset) }}
	if need := int(min(windowBytes, r.size)); len(s.window) < need {
		if s.window, err = alignedUnits(s.dev, need); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	r.window = s.window
	return f, r, nil
}

// numbers lists the log numbers in the directory, ascending.
func (s *scanner) numbers() ([]uint64, error) {
	names, err := s.dev.List()
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	byNumber := make([]uint64, 0, len(names))
	for _, name := range names {
		if number, ok := fileNumber(name); ok {
			byNumber = append(byNumber, number)
		}
	}
	slices.Sort(byNumber)
	return byNumber, nil
}

// scan reads the file with a log number: its header, and, if whole or if the
// header tells nothing, all of its frames. A file of another store or version
// is an error.
func (s *scanner) scan(number uint64, whole bool) (found *scanned, err error) {
	found = &scanned{name: fileName(number), number: number}
	f, r, err := s.open(found.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	found.size = f.SizeBytes()
	if r.size == 0 {
		return found, nil
	}
	headerCause, err := s.scanHeader(r, found)
	if err != nil {
		return nil, err
	}
	if !whole && found.header == headerSound {
		return found, nil
	}
	if err := s.scanFrames(r, found); err != nil {
		return nil, err
	}
	s.settle(found, headerCause)
	return found, nil
}

// scanHeader fills the header's part of found in.
func (s *scanner) scanHeader(r *fileReader, found *scanned) (damaged, err error) {
	unit, damaged, err := r.view(0, unitBytes)
	if err != nil {
		return nil, err
	}
	var h fileHeader
	found.hidden = damaged != nil
	facts := headerFacts{readable: damaged == nil}
	if facts.readable {
		h, facts.sound = decodeHeader(unit)
	}
	if facts.sound {
		facts.version, facts.store, facts.number = h.version == formatVersion, h.storeID == s.storeID, h.number == found.number
	}
	found.header = judgeHeader(facts)
	switch found.header {
	case headerVersion:
		return nil, &VersionError{File: found.name, Found: h.version, Want: formatVersion}
	case headerForeign:
		return nil, &ForeignError{File: found.name, Found: h.storeID, Want: s.storeID}
	case headerSpare:
		found.other = h.number
	case headerSound:
		found.first = h.first
		found.items = append(found.items, item{seen: seenFileStart, first: h.first, synced: max(h.first, 1) - 1})
	}
	return damaged, nil
}

// scanFrames appends everything behind the header to found.
func (s *scanner) scanFrames(r *fileReader, found *scanned) error {
	for offset := int64(unitBytes); offset < r.size; {
		it, length, err := s.examine(r, found.number, offset)
		if err != nil {
			return err
		}
		offset += int64(length)
		if previous := len(found.items) - 1; it.seen != seenFrame && previous >= 0 && !found.items[previous].live() {
			if it.seen > found.items[previous].seen {
				found.items[previous] = it // the more telling one speaks for the stretch
			}
			continue
		}
		found.items = append(found.items, it)
	}
	return nil
}

// settle gives a file without a sound header its start from its frames, or, if
// it has none, leaves of it only what is a sign of damage.
func (s *scanner) settle(found *scanned, headerCause error) {
	if found.header == headerSound {
		return
	}
	for i := range found.items {
		if it := &found.items[i]; it.seen == seenFrame && !it.recycled {
			found.first = it.fileFirst
			s.logger.Warn("wal: file header is damaged, its frames are used", "file", found.name, "cause", headerCause)
			return
		}
	}
	kept := found.items[:0]
	if found.header == headerSpare {
		found.items = kept // never in use: whatever it holds says nothing
		return
	}
	if headerCause != nil {
		kept = append(kept, item{seen: seenUnreadable, cause: headerCause})
	}
	for _, it := range found.items {
		if it.seen >= seenMisplaced {
			kept = append(kept, it)
		}
	}
	found.items = kept
}

// examine looks at the unit at offset: what it is, and how many bytes it takes.
func (s *scanner) examine(r *fileReader, number uint64, offset int64) (it item, length int, err error) {
	it, length = item{offset: offset}, unitBytes
	if cause := s.faded[place{fileName(number), offset}]; cause != nil {
		it.seen, it.cause = seenUnreadable, cause
		return it, length, nil
	}
	unit, damaged, err := r.view(offset, unitBytes)
	if err != nil {
		return it, 0, err
	}
	var h frameHeader
	facts := placeFacts{readable: damaged == nil}
	facts.magic = facts.readable && h.parse(unit)
	facts.store = facts.magic && h.storeID == s.storeID
	facts.number = facts.store && h.inFile(number)
	facts.offset = facts.number && h.offset == offset
	cause := errMisplaced
	if facts.offset {
		if cause, err = s.prove(r, &h, offset); err != nil {
			return it, 0, err
		}
		facts.sound = cause == nil
	}
	it.seen = look(facts)
	switch it.seen {
	case seenFrame:
		length = frameBytes(int(h.payloadBytes))
		it.recycled = h.number != number
		it.fileFirst, it.first, it.last = h.fileFirst, h.first, h.last()
		it.dataSynced, it.barrier = h.dataSynced, h.barrier
		if !it.recycled {
			it.synced = max(h.synced, h.fileFirst-1)
		}
	case seenUnreadable:
		it.cause = damaged
	case seenMisplaced, seenBroken:
		it.cause = cause
	}
	return it, length, nil
}

// prove reads the whole frame and checks it; cause says what is wrong with it.
func (s *scanner) prove(r *fileReader, h *frameHeader, offset int64) (cause, err error) {
	length := h.length(r.size - offset)
	if length == 0 {
		return errLength, nil
	}
	frame, damaged, err := r.view(offset, length)
	if err != nil || damaged != nil {
		return damaged, err
	}
	return h.check(frame), nil
}
