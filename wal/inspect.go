package wal

import (
	"bytes"
	"fmt"
	"io"
	"iter"
)

// Sight says what Inspect found at a place of a log file.
type Sight string

// The sights of Inspect.
const (
	SightHeader     Sight = "header"          // a sound header
	SightNoHeader   Sight = "no header"       // the first unit is no sound header
	SightFrame      Sight = "frame"           // a sound frame of this file
	SightLeftover   Sight = "left-over frame" // of the file's earlier life; means nothing
	SightForeign    Sight = "foreign frame"   // of another store
	SightBroken     Sight = "broken frame"    // looks like this file's frame and does not prove itself
	SightMisplaced  Sight = "misplaced frame" // this file's frame, written for another offset
	SightUnreadable Sight = "unreadable"      // the medium gives no bytes
	SightEmpty      Sight = "empty"           // zeros
	SightRest       Sight = "rest"            // bytes without the start of a frame
	SightGap        Sight = "gap"             // records that had been on stable media are missing
	SightTail       Sight = "tail"            // the log's end here is torn or unsynced; normal after a crash
	SightCut        Sight = "cut"             // the file ends within a unit
)

// Sighting is one thing that Inspect found.
type Sighting struct {
	Sight  Sight
	Offset int64 // in bytes from the start of the file
	Bytes  int64 // length of the place
	// Header is set for SightHeader, Frame for SightFrame and, as it claims, for
	// left-over, foreign, broken and misplaced frames.
	Header *HeaderFacts
	Frame  *FrameFacts
	// Payloads are the records of a SightFrame, the first at Frame.First. They
	// are valid until the next sighting.
	Payloads [][]byte
	// Gap is set for SightGap.
	Gap *Gap
	// Cause says what is wrong here, nil if nothing is.
	Cause error
	// Damage: synced bytes are lost or changed. A torn tail is none.
	Damage bool
}

// HeaderFacts are the fields of a file header.
type HeaderFacts struct {
	Version uint32
	StoreID [16]byte
	Number  uint64 // log number
	First   Position
}

// FrameFacts are the fields of a frame's header.
type FrameFacts struct {
	Number       uint64 // log number
	Offset       int64  // the offset that it was written for
	FileFirst    Position
	First, Last  Position
	Records      uint32
	PayloadBytes uint32
	Synced       Position
	DataSynced   Position
	Barrier      Position
	StoreID      [16]byte
}

// FileNumber is the log number in a file's name, false if the name is not that
// of a log file.
func FileNumber(name string) (number uint64, ours bool) { return fileNumber(name) }

// IsLogFile reports whether a file that starts with head is a log file.
func IsLogFile(head []byte) bool {
	return bytes.HasPrefix(head, []byte(headerMagic))
}

// Inspect reads one log file of sizeBytes and yields what it holds, in order
// of offset, without judging it by the other files of the log. number is the
// log number in the file's name; 0 takes the one in the header. It writes
// nothing, never fails, and goes on behind whatever it cannot read; a file
// that is written meanwhile may show a torn tail.
func Inspect(r io.ReaderAt, sizeBytes int64, number uint64) iter.Seq[Sighting] {
	return func(yield func(Sighting) bool) {
		in := newInspector(r, sizeBytes, number)
		head := in.header()
		if !yield(head) || head.Header != nil && head.Header.Version != formatVersion {
			return
		}
		in.survey()
		for i := range in.places {
			s := in.sighting(&in.places[i])
			for _, more := range in.judged[in.places[i].offset] {
				if !yield(more) {
					return
				}
			}
			if !yield(s) {
				return
			}
		}
		if rest := sizeBytes % unitBytes; rest != 0 {
			yield(Sighting{Sight: SightCut, Offset: sizeBytes - rest, Bytes: rest,
				Cause: fmt.Errorf("a log file is a multiple of %d bytes", unitBytes)})
		}
	}
}

// inspector reads one file twice: to judge its places by what lies behind
// them, then to show them.
type inspector struct {
	r      *fileReader
	s      *scanner
	number uint64
	first  Position // of the header; 0 without one
	sound  bool     // the header is
	places []stretch
	// judged is what recovery would say of this file alone, by offset.
	judged map[int64][]Sighting
}

// stretch is a place of the file.
type stretch struct {
	item
	sight Sight
	bytes int64
}

func newInspector(r io.ReaderAt, sizeBytes int64, number uint64) *inspector {
	size := max(0, min(sizeBytes, fileBytesMax)) &^ (unitBytes - 1)
	return &inspector{number: number, s: &scanner{}, judged: map[int64][]Sighting{},
		r: &fileReader{bad: map[int64]error{}, size: size, window: make([]byte, min(windowBytes, size)),
			read: func(b []byte, offset int64) error {
				n, err := r.ReadAt(b, offset)
				if n == len(b) {
					return nil
				}
				if err == nil || err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return err
			}}}
}

// view is the reader's, whose device can always be asked.
func (in *inspector) view(offset int64, n int) ([]byte, error) {
	b, damaged, err := in.r.view(offset, n)
	if err != nil {
		return nil, err
	}
	return b, damaged
}

// header looks at the first unit and settles whose frames count as live.
func (in *inspector) header() Sighting {
	found := Sighting{Sight: SightNoHeader, Bytes: min(unitBytes, in.r.size)}
	if in.r.size == 0 {
		found.Cause = fmt.Errorf("the file is shorter than a header of %d bytes", unitBytes)
		return found
	}
	unit, err := in.view(0, unitBytes)
	if err != nil {
		in.adoptFrame()
		found.Cause, found.Damage = err, true
		return found
	}
	h, sound := decodeHeader(unit)
	if !sound {
		live := in.adoptFrame()
		blank := allZero(unit)
		found.Damage = live || !blank
		if found.Cause = errHeader; blank {
			found.Cause = errBlankHeader
		}
		return found
	}
	found.Sight, found.Header = SightHeader, &HeaderFacts{Version: h.version, StoreID: h.storeID, Number: h.number, First: h.first}
	in.s.storeID = h.storeID
	if in.number == 0 {
		in.number = h.number
	}
	switch in.sound = h.number == in.number; {
	case h.version != formatVersion:
		found.Cause = fmt.Errorf("%w: version %d, this program knows %d", ErrVersion, h.version, formatVersion)
	case !in.sound:
		found.Cause = fmt.Errorf("header of log number %d in file number %d: recycled, not in use yet", h.number, in.number)
	default:
		in.first = h.first
	}
	return found
}

// adoptFrame takes store and, if the name told none, log number from the first
// sound frame.
func (in *inspector) adoptFrame() bool {
	for offset := int64(unitBytes); offset < in.r.size; offset += unitBytes {
		unit, err := in.view(offset, unitBytes)
		if err != nil {
			continue
		}
		var h frameHeader
		if !h.parse(unit) || h.offset != offset || in.number != 0 && h.number != in.number {
			continue
		}
		if cause, err := in.s.prove(in.r, &h, offset); cause != nil || err != nil {
			continue
		}
		in.s.storeID, in.number = h.storeID, h.number
		return true
	}
	return false
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
