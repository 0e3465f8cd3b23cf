package tcp

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// sumBytes is the length of the checksum behind a message: what it says decides about
// erasures, and TCP's own checksum is weak.
const sumBytes = 8

// seal makes a message: the sizes of blocks, if any, the body, and their checksum. The
// body is copied.
func seal(sizes []uint32, body []byte) []byte {
	b := make([]byte, 0, 4*len(sizes)+len(body)+sumBytes)
	for _, n := range sizes {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = append(b, body...)
	return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
}

// sealedBytes is what a request with blocks of these sizes counts of the bytes in flight.
func sealedBytes(sizes []uint32, body []byte) int64 {
	n := int64(4*len(sizes) + len(body) + sumBytes)
	for _, size := range sizes {
		n += int64(size)
	}
	return n
}

// message is one on its way in, chunk by chunk and in order. Its memory is that of the
// chunks that have come, whatever was announced, until they are joined.
type message struct {
	total  uint32
	come   int
	chunks [][]byte
}

// room is where the chunk of h goes.
func (m *message) room(h *header) ([]byte, error) {
	if h.Offset == 0 && m.chunks == nil {
		m.total = h.Total
	}
	if h.Total != m.total || int(h.Offset) != m.come || m.whole() && h.Length > 0 {
		return nil, malformed("a chunk at %d of %d, %d of %d bytes have come", h.Offset, h.Total, m.come, m.total)
	}
	chunk := make([]byte, h.Length)
	m.chunks = append(m.chunks, chunk)
	m.come += len(chunk)
	return chunk, nil
}

func (m *message) whole() bool { return m.come == int(m.total) }

// join makes one piece of what has come. One chunk is that already.
func (m *message) join() []byte {
	if len(m.chunks) != 1 {
		m.chunks = [][]byte{slices.Concat(m.chunks...)}
	}
	return m.chunks[0]
}

// open checks a whole message and takes it apart.
func (m *message) open(blocks int) (sizes []uint32, body []byte, err error) {
	b := m.join()
	n := len(b) - sumBytes
	if n < 4*blocks {
		return nil, nil, malformed("a message of %d bytes with %d blocks", len(b), blocks)
	}
	if xxh3.Hash(b[:n]) != binary.LittleEndian.Uint64(b[n:]) {
		return nil, nil, malformed("a message's checksum is wrong")
	}
	if blocks > 0 {
		sizes = make([]uint32, blocks)
	}
	for i := range sizes {
		if sizes[i] = binary.LittleEndian.Uint32(b[4*i:]); sizes[i] > BlockBytesMax {
			return nil, nil, malformed("a block of %d bytes, at most %d are allowed", sizes[i], BlockBytesMax)
		}
	}
	return sizes, b[4*blocks : n : n], nil
}
