package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// headerBytes is the length of a frame's header.
const headerBytes = 40

// Behind the bytes of a block in a frame stands one byte more: whether they are the
// block's. The sender may find out in the middle that its memory is gone.
const (
	trailerBytes        = 1
	trailerWhole   byte = 0
	trailerSpoiled byte = 1
)

// chunkBytes is the most that a frame carries; all chunks of a block but its last have
// exactly so many bytes.
const chunkBytes = 256 << 10

// Bounds of what a peer may announce.
const (
	// BlockBytesMax is the largest block.
	BlockBytesMax = 64 << 20
	// BlocksMax is how many one Fetch or Push has at most.
	BlocksMax = 4096
	// BodyBytesMax is the longest body of a call, and the longest answer.
	BodyBytesMax = 16 << 20
)

// frameType says what a frame is. Numbers are for ever (docs/format/peer.md).
type frameType uint8

const (
	typeCall   frameType = 0x01 // a request, in chunks: the body
	typeFetch  frameType = 0x02 // the sizes of blocks, the body
	typePush   frameType = 0x03 // the same
	typeCancel frameType = 0x04 // the caller has given a request up
	typeAnswer frameType = 0x05 // in chunks: what the handler said
	typeError  frameType = 0x06 // in chunks: why not; Code
	typeNone   frameType = 0x07 // there is no block Index; Code is a transport.Status
	typeGo     frameType = 0x08 // blocks below Index of a Push may come
	typeBeat   frameType = 0x09 // sign of life
	typeData   frameType = 0x0a // a chunk of block Index
	typeAbort  frameType = 0x0b // block Index ends here: it could not be read
)

// header begins every frame; Length bytes follow it.
type header struct {
	Type   frameType
	Code   uint8  // a kind, a code or a status, as Type has it
	Length uint32 // of what follows
	Call   uint64 // chosen by who asks
	Index  uint32 // a block, or how many
	Offset uint32 // of this chunk in the block or message
	Total  uint32 // bytes of the block or message
	Extra  uint64 // of a request: microseconds left, 0 for any; of a block: its checksum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errMalformed says that a peer breaks the protocol; its link ends.
var errMalformed = errors.New("the peer breaks the protocol")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// append appends the header's bytes.
func (h *header) append(b []byte) []byte {
	le, start := binary.LittleEndian, len(b)
	b = append(b, byte(h.Type), h.Code, 0, 0)
	b = le.AppendUint32(b, h.Length)
	b = le.AppendUint64(b, h.Call)
	b = le.AppendUint32(b, h.Index)
	b = le.AppendUint32(b, h.Offset)
	b = le.AppendUint32(b, h.Total)
	b = le.AppendUint64(b, h.Extra)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseHeader reads the headerBytes of b and checks what holds for every frame.
func parseHeader(b []byte) (h header, err error) {
	le := binary.LittleEndian
	if crc32.Checksum(b[:36], castagnoli) != le.Uint32(b[36:]) {
		return h, malformed("a header's checksum is wrong")
	}
	h = header{
		Type: frameType(b[0]), Code: b[1], Length: le.Uint32(b[4:]), Call: le.Uint64(b[8:]),
		Index: le.Uint32(b[16:]), Offset: le.Uint32(b[20:]), Total: le.Uint32(b[24:]), Extra: le.Uint64(b[28:]),
	}
	if b[2] != 0 || b[3] != 0 {
		return h, malformed("flags %#x%02x in a header", b[3], b[2])
	}
	return h, h.check()
}

// check bounds the fields by themselves.
func (h *header) check() error {
	most := uint32(0)
	switch h.Type {
	case typeCancel, typeNone, typeGo, typeBeat, typeAbort:
		if h.Length != 0 || h.Offset != 0 || h.Total != 0 {
			return malformed("frame type %#x with %d bytes", h.Type, h.Length)
		}
		return nil
	case typeCall, typeAnswer, typeError:
		most = BodyBytesMax + sumBytes
	case typeFetch, typePush:
		most = BodyBytesMax + sumBytes + 4*BlocksMax
	case typeData:
		most = BlockBytesMax
	default:
		return malformed("frame type %#x", h.Type)
	}
	switch {
	case h.Total > most:
		return malformed("frame type %#x of %d bytes, at most %d are allowed", h.Type, h.Total, most)
	case h.Index > BlocksMax:
		return malformed("block or count %d, at most %d are allowed", h.Index, BlocksMax)
	case h.Offset%chunkBytes != 0 || h.Offset > h.Total || h.Offset == h.Total && h.Total > 0 ||
		h.Length != min(h.Total-h.Offset, chunkBytes):
		return malformed("a chunk of %d bytes at %d of %d", h.Length, h.Offset, h.Total)
	}
	return nil
}

// chunks is the number of frames that so many bytes take.
func chunks(nBytes uint32) int { return max(1, int((uint64(nBytes)+chunkBytes-1)/chunkBytes)) }

// seen remembers which chunks of a block have come.
type seen [BlockBytesMax / chunkBytes / 64]uint64

// add notes the chunk at offset; false if it was there before.
func (s *seen) add(offset uint32) bool {
	i := offset / chunkBytes
	if s[i/64]&(1<<(i%64)) != 0 {
		return false
	}
	s[i/64] |= 1 << (i % 64)
	return true
}
