package engine

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/spillway-kv/spillway/engine/table"
)

// A segment's directory (docs/format/segment.md) lies behind its slots and
// names their blocks, so that a lost index can be made anew. Each page stands
// for itself:
//
//	crc32c u32 of what follows | magic u32 | segment u32 | page u32 | incarnation u32 |
//	entries u16 | bytes u16 of them | log position u64 | entries | zeros
//
// and each entry is
//
//	slot u32 | ID 16 | position u64 | checksum u64 | depth u32 | importance u8 |
//	group u32 | key length u16, 0 = unknown | key
const (
	directoryPageBytes    = 4096
	directoryBytesPerSlot = 128 // on average
	directoryHeaderBytes  = 4 + 4 + 4 + 4 + 4 + 2 + 2 + 8
	directoryMagic        = uint32('S') | uint32('P')<<8 | uint32('D')<<16 | uint32('R')<<24
	directoryEntryBytes   = 4 + 16 + 8 + 8 + 4 + 1 + 4 + 2 // without the key
	directoryRoomBytes    = directoryPageBytes - directoryHeaderBytes
	// directoryEntriesPerPage is how many entries without a key fit into a page.
	directoryEntriesPerPage = directoryRoomBytes / directoryEntryBytes
)

// directoryPage is one page, decoded.
type directoryPage struct {
	segment     uint32
	page        uint32
	incarnation uint32
	position    uint64 // of the log when the directory was begun
	entries     []directoryEntry
}

// directoryEntry is one block of a segment.
type directoryEntry struct {
	slot       uint32
	id         table.ID
	position   uint64
	checksum   uint64
	depth      uint32
	importance uint8
	group      uint32
	key        []byte // empty: unknown
}

func (e *directoryEntry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.slot)
	id := idBytes(e.id)
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.position)
	b = binary.LittleEndian.AppendUint64(b, e.checksum)
	b = binary.LittleEndian.AppendUint32(b, e.depth)
	b = append(b, e.importance)
	b = binary.LittleEndian.AppendUint32(b, e.group)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.key)))
	return append(b, e.key...)
}

// cutDirectoryEntry takes the first entry off b; its key aliases b.
func cutDirectoryEntry(b []byte) (e directoryEntry, rest []byte, ok bool) {
	if len(b) < directoryEntryBytes {
		return e, nil, false
	}
	le := binary.LittleEndian
	e = directoryEntry{slot: le.Uint32(b), id: idFromBytes(b[4:]), position: le.Uint64(b[20:]), checksum: le.Uint64(b[28:]),
		depth: le.Uint32(b[36:]), importance: b[40], group: le.Uint32(b[41:])}
	end := directoryEntryBytes + int(le.Uint16(b[45:]))
	if end > len(b) || end > directoryEntryBytes+KeyMaxBytes {
		return e, nil, false
	}
	e.key = b[directoryEntryBytes:end:end]
	return e, b[end:], true
}

// sealDirectoryPage finishes a page whose entries already lie behind the header.
func sealDirectoryPage(page []byte, p *directoryPage, entries, entryBytes int) {
	le := binary.LittleEndian
	le.PutUint32(page[4:], directoryMagic)
	le.PutUint32(page[8:], p.segment)
	le.PutUint32(page[12:], p.page)
	le.PutUint32(page[16:], p.incarnation)
	le.PutUint16(page[20:], uint16(entries))
	le.PutUint16(page[22:], uint16(entryBytes))
	le.PutUint64(page[24:], p.position)
	clear(page[directoryHeaderBytes+entryBytes:])
	le.PutUint32(page, crc32.Checksum(page[4:], castagnoli))
}

// decodeDirectoryPage believes nothing before the checksum. The keys of the
// entries alias b.
func decodeDirectoryPage(b []byte) (p directoryPage, err error) {
	bad := func(format string, args ...any) (directoryPage, error) {
		return p, fmt.Errorf("%w: directory page "+format, append([]any{ErrCorrupt}, args...)...)
	}
	le := binary.LittleEndian
	switch {
	case len(b) != directoryPageBytes:
		return bad("of %d bytes", len(b))
	case crc32.Checksum(b[4:], castagnoli) != le.Uint32(b):
		return bad("fails its checksum")
	case le.Uint32(b[4:]) != directoryMagic:
		return bad("has no magic")
	}
	p = directoryPage{segment: le.Uint32(b[8:]), page: le.Uint32(b[12:]), incarnation: le.Uint32(b[16:]), position: le.Uint64(b[24:])}
	n, nBytes := int(le.Uint16(b[20:])), int(le.Uint16(b[22:]))
	if nBytes > directoryRoomBytes {
		return bad("claims %d bytes of entries", nBytes)
	}
	rest := b[directoryHeaderBytes : directoryHeaderBytes+nBytes]
	for range n {
		e, more, ok := cutDirectoryEntry(rest)
		if !ok {
			return bad("has a broken entry")
		}
		p.entries = append(p.entries, e)
		rest = more
	}
	if len(rest) != 0 || !allZero(b[directoryHeaderBytes+nBytes:]) {
		return bad("has bytes behind its %d entries", n)
	}
	return p, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// directoryPacker lays entries out in pages, in order. It always keeps room for
// the entries to come without their keys, and leaves keys out where they would
// take that room away.
type directoryPacker struct {
	page      directoryPage // of the next page to seal
	pagesMax  uint32
	toCome    int // entries not yet added, at most
	buf       []byte
	entries   int
	usedBytes int
	emit      func(number uint32, page []byte) error
}

// newDirectoryPacker packs at most toCome entries; emit gets each finished
// page, valid during the call.
func newDirectoryPacker(h *segmentHeader, position uint64, toCome int, emit func(number uint32, page []byte) error) *directoryPacker {
	return &directoryPacker{page: directoryPage{segment: h.number, incarnation: h.incarnation, position: position},
		pagesMax: h.dirBytes / directoryPageBytes, toCome: toCome, buf: make([]byte, directoryPageBytes), emit: emit}
}

// fits reports whether, after an entry of n bytes, all entries to come still
// have room without a key; onNew says whether the entry opens a new page.
func (p *directoryPacker) fits(n int) (fits, onNew bool) {
	left := int(p.pagesMax) - int(p.page.page) - 1 // pages behind this one
	room := directoryRoomBytes - p.usedBytes
	if n > room {
		onNew, room = true, directoryRoomBytes
		if left--; left < 0 {
			return false, true
		}
	}
	return (room-n)/directoryEntryBytes+left*directoryEntriesPerPage >= p.toCome-1, onNew
}

func (p *directoryPacker) add(e directoryEntry) error {
	fits, onNew := p.fits(directoryEntryBytes + len(e.key))
	if !fits {
		e.key = nil
		_, onNew = p.fits(directoryEntryBytes)
	}
	if onNew {
		if err := p.flush(); err != nil {
			return err
		}
	}
	at := directoryHeaderBytes + p.usedBytes
	p.usedBytes += len(e.append(p.buf[at:at:directoryPageBytes]))
	p.entries++
	p.toCome--
	return nil
}

// flush hands the current page out, even an empty one.
func (p *directoryPacker) flush() error {
	sealDirectoryPage(p.buf, &p.page, p.entries, p.usedBytes)
	err := p.emit(p.page.page, p.buf)
	p.page.page++
	p.entries, p.usedBytes = 0, 0
	return err
}
