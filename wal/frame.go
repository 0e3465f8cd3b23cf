package wal

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/spillway-kv/spillway/engine/planted"
)

// Frozen numbers of the format; see docs/format/wal.md.
const (
	frameMagic       = uint32('S') | uint32('W')<<8 | uint32('F')<<16 | uint32('1')<<24
	frameHeaderBytes = 88
	lengthBytes      = 4
	recordBytesMax   = 1 << 20
	frameBytesMax    = recordBytesMax + unitBytes
	payloadBytesMax  = frameBytesMax - frameHeaderBytes
)

// frameHeader is the fixed part at the start of a frame.
type frameHeader struct {
	number       uint64   // log number of the file
	offset       int64    // of the frame in the file
	fileFirst    Position // first position of the file
	first        Position // of the first record
	count        uint32
	payloadBytes uint32
	synced       Position
	dataSynced   Position
	barrier      Position
	storeID      [16]byte
}

func (h *frameHeader) last() Position { return h.first + Position(h.count) - 1 }

// frameBytes is the length of a frame with that many payload bytes.
func frameBytes(payloadBytes int) int {
	return (frameHeaderBytes + payloadBytes + unitBytes - 1) &^ (unitBytes - 1)
}

// seal turns frame into a finished one. The records already lie behind the
// header; frame is exactly frameBytes long.
func (h *frameHeader) seal(frame []byte) {
	le := binary.LittleEndian
	le.PutUint32(frame[4:], frameMagic)
	le.PutUint64(frame[8:], h.number)
	le.PutUint64(frame[16:], uint64(h.offset))
	le.PutUint64(frame[24:], uint64(h.fileFirst))
	le.PutUint64(frame[32:], uint64(h.first))
	le.PutUint32(frame[40:], h.count)
	le.PutUint32(frame[44:], h.payloadBytes)
	le.PutUint64(frame[48:], uint64(h.synced))
	le.PutUint64(frame[56:], uint64(h.dataSynced))
	le.PutUint64(frame[64:], uint64(h.barrier))
	copy(frame[72:frameHeaderBytes], h.storeID[:])
	clear(frame[frameHeaderBytes+int(h.payloadBytes):])
	le.PutUint32(frame, crc32.Checksum(frame[4:], castagnoli))
}

// parse reads the header's fields; none of them is proven. magic says whether
// they look like a header at all.
func (h *frameHeader) parse(unit []byte) (magic bool) {
	le := binary.LittleEndian
	h.number = le.Uint64(unit[8:])
	h.offset = int64(le.Uint64(unit[16:]))
	h.fileFirst = Position(le.Uint64(unit[24:]))
	h.first = Position(le.Uint64(unit[32:]))
	h.count = le.Uint32(unit[40:])
	h.payloadBytes = le.Uint32(unit[44:])
	h.synced = Position(le.Uint64(unit[48:]))
	h.dataSynced = Position(le.Uint64(unit[56:]))
	h.barrier = Position(le.Uint64(unit[64:]))
	copy(h.storeID[:], unit[72:])
	return le.Uint32(unit[4:]) == frameMagic
}

// length bounds the frame's length by the largest frame and by the room left in
// the file; 0 if it is out of bounds.
func (h *frameHeader) length(roomBytes int64) int {
	if h.payloadBytes < lengthBytes || h.payloadBytes > payloadBytesMax {
		return 0
	}
	if n := frameBytes(int(h.payloadBytes)); int64(n) <= roomBytes {
		return n
	}
	return 0
}

// check proves a frame of which length was bounded: its checksum, then its
// positions and the lengths of its records.
func (h *frameHeader) check(frame []byte) error {
	if binary.LittleEndian.Uint32(frame) != crc32.Checksum(frame[4:], castagnoli) {
		return errChecksum
	}
	if h.fileFirst == 0 || h.first < h.fileFirst || uint64(h.first) > math.MaxUint64-uint64(h.count) {
		return errRecords
	}
	rest, count := frame[frameHeaderBytes:frameHeaderBytes+int(h.payloadBytes)], uint32(0)
	for len(rest) > 0 {
		if _, rest = cutRecord(rest); rest == nil {
			return errRecords
		}
		count++
	}
	if count != h.count {
		return errRecords
	}
	return nil
}

// cutRecord takes the first record off the records of a frame. rest is nil,
// not merely empty, if there is no whole record.
func cutRecord(records []byte) (payload, rest []byte) {
	if len(records) < lengthBytes {
		return nil, nil
	}
	n := binary.LittleEndian.Uint32(records)
	if uint64(n) > uint64(len(records)-lengthBytes) || n > recordBytesMax {
		return nil, nil
	}
	end := lengthBytes + int(n)
	return records[lengthBytes:end:end], records[end:]
}

// inFile reports whether a frame with this log number is live in the file with
// that one. The planted fault takes every frame for a live one.
func (h *frameHeader) inFile(number uint64) bool {
	return h.number == number || planted.Active(planted.ReplayRecycled)
}
