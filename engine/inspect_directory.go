package engine

import (
	"fmt"
	"io"
	"iter"
)

// DirectoryPage is one written page of a segment's directory.
type DirectoryPage struct {
	Offset      int64            `json:"offset"`      // in bytes from the start of the file
	Page        uint32           `json:"page"`        // from 0
	Segment     uint32           `json:"segment"`     // whose page it claims to be
	Incarnation uint32           `json:"incarnation"` // of the namespace
	Position    uint64           `json:"position"`    // of the log when the directory was begun
	Entries     []DirectoryEntry `json:"entries"`     // the blocks that the page names
	Flaw        *Flaw            `json:"-"`           // what is wrong with the page; its fields may be missing
}

// DirectoryEntry is one block that a directory names.
type DirectoryEntry struct {
	PutFacts
	Position uint64 `json:"position"` // log position of the put
}

// InspectDirectory yields the pages of the directory behind the slots of a
// segment whose header InspectSegment has proven; pages never written are left
// out. Keys are valid until the next page. A directory may be older than what
// the slots hold now.
func InspectDirectory(r io.ReaderAt, sizeBytes int64, facts *SegmentFacts) iter.Seq[DirectoryPage] {
	return func(yield func(DirectoryPage) bool) {
		h := segmentHeader{slots: facts.Slots, slotBytes: facts.SlotBytes, dirBytes: facts.DirBytes}
		buf := make([]byte, directoryPageBytes)
		end := min(h.fileBytes(), sizeBytes)
		for offset := h.directoryOffset(); offset+directoryPageBytes <= end; offset += directoryPageBytes {
			number := uint32((offset - h.directoryOffset()) / directoryPageBytes)
			if n, err := r.ReadAt(buf, offset); n < len(buf) {
				if !yield(DirectoryPage{Offset: offset, Page: number, Flaw: &Flaw{offset, fmt.Sprintf("directory page %d cannot be read: %v", number, err), true}}) {
					return
				}
				continue
			}
			if !allZero(buf) && !yield(inspectPage(buf, offset, number, facts)) {
				return
			}
		}
	}
}

func inspectPage(b []byte, offset int64, number uint32, facts *SegmentFacts) DirectoryPage {
	p, err := decodeDirectoryPage(b)
	page := DirectoryPage{Offset: offset, Page: number, Segment: p.segment, Incarnation: p.incarnation, Position: p.position,
		Entries: []DirectoryEntry{}}
	flaw := func(format string, args ...any) {
		page.Flaw = &Flaw{offset, fmt.Sprintf("directory page %d: ", number) + fmt.Sprintf(format, args...), true}
	}
	switch {
	case err != nil:
		flaw("%v", err)
		return page
	case p.page != number || p.segment != facts.Number || p.incarnation != facts.Incarnation:
		flaw("it is page %d of segment %d, incarnation %d", p.page, p.segment, p.incarnation)
	}
	for _, e := range p.entries {
		page.Entries = append(page.Entries, DirectoryEntry{PutFacts{idText(e.id), MakePlace(p.segment, e.slot).String(),
			fmt.Sprintf("%016x", e.checksum), e.depth, e.importance, e.group, e.key}, e.position})
	}
	return page
}
