package engine

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/spillway-kv/spillway/engine/planted"
)

// The segment header (docs/format/segment.md) is the first 4 KiB of a segment
// file; its first segmentHeaderBytes are mirrored in the extended attribute
// user.spillway.header.
const (
	headerBytes        = 4096 // space before the first slot
	segmentHeaderBytes = 128
	segmentMagic       = "SPWYSEG1"
	segmentVersion     = 1
	segmentAttr        = "header"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segmentHeader says what a segment file is and whose.
type segmentHeader struct {
	storeID     [16]byte
	nsID        [32]byte
	number      uint32
	namespace   uint32
	incarnation uint32
	slots       uint32
	slotBytes   uint32
	blockBytes  uint32
	dirBytes    uint32 // room for the directory behind the slots
	// createdAfter is the log position at creation: entries at or before it
	// belong to an earlier file of the same number.
	createdAfter uint64
}

func (h *segmentHeader) encode() []byte {
	b := make([]byte, segmentHeaderBytes)
	copy(b[0:8], segmentMagic)
	le := binary.LittleEndian
	le.PutUint32(b[12:], segmentVersion)
	copy(b[16:32], h.storeID[:])
	copy(b[32:64], h.nsID[:])
	le.PutUint32(b[64:], h.number)
	le.PutUint32(b[68:], h.namespace)
	le.PutUint32(b[72:], h.incarnation)
	le.PutUint32(b[76:], h.slots)
	le.PutUint32(b[80:], h.slotBytes)
	le.PutUint32(b[84:], h.blockBytes)
	le.PutUint64(b[88:], h.createdAfter)
	le.PutUint32(b[96:], h.dirBytes)
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

// decodeSegmentHeader believes nothing before the checksum. A wrong version
// is ErrVersion, everything else wrong is ErrCorrupt.
func decodeSegmentHeader(b []byte) (h segmentHeader, err error) {
	if len(b) < segmentHeaderBytes {
		return h, fmt.Errorf("%w: segment header of %d bytes", ErrCorrupt, len(b))
	}
	b = b[:segmentHeaderBytes]
	le := binary.LittleEndian
	if string(b[0:8]) != segmentMagic {
		return h, fmt.Errorf("%w: segment header has no magic", ErrCorrupt)
	}
	if got, want := crc32.Checksum(b[12:], castagnoli), le.Uint32(b[8:]); got != want {
		return h, fmt.Errorf("%w: segment header checksum %08x, computed %08x", ErrCorrupt, want, got)
	}
	if v := le.Uint32(b[12:]); v != segmentVersion {
		return h, fmt.Errorf("%w: segment format %d, this program reads %d", ErrVersion, v, segmentVersion)
	}
	copy(h.storeID[:], b[16:32])
	copy(h.nsID[:], b[32:64])
	h.number = le.Uint32(b[64:])
	h.namespace = le.Uint32(b[68:])
	h.incarnation = le.Uint32(b[72:])
	h.slots = le.Uint32(b[76:])
	h.slotBytes = le.Uint32(b[80:])
	h.blockBytes = le.Uint32(b[84:])
	h.createdAfter = le.Uint64(b[88:])
	h.dirBytes = le.Uint32(b[96:])
	if h.number == 0 || h.slots == 0 || h.slots > slotsMax || h.slotBytes%headerBytes != 0 ||
		h.blockBytes > h.slotBytes || h.blockBytes < BlockBytesMin || h.slotBytes > BlockBytesMax ||
		int64(h.dirBytes) != directoryBytes(h.slots) {
		return h, fmt.Errorf("%w: a sound segment header with sizes that this program does not know", ErrVersion)
	}
	return h, nil
}

// mayHold reports whether an entry may name a block of this segment: it names one
// of its slots, for its namespace and incarnation, and is not older than the file.
func (h *segmentHeader) mayHold(e *indexEntry) bool {
	return e.place.Slot() < h.slots && e.position > h.createdAfter && e.namespace == h.namespace &&
		(e.incarnation == h.incarnation || planted.Active(planted.ForgetIncarnation))
}

// fileBytes is the length of the segment's file.
func (h *segmentHeader) fileBytes() int64 { return h.directoryOffset() + int64(h.dirBytes) }

// directoryOffset is where the slots end and the directory begins.
func (h *segmentHeader) directoryOffset() int64 { return h.slotOffset(h.slots) }

// slotOffset is the file offset of a slot.
func (h *segmentHeader) slotOffset(slot uint32) int64 {
	return headerBytes + int64(slot)*int64(h.slotBytes)
}
