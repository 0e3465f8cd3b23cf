package tcp

import (
	"encoding/binary"

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

// message is one on its way in, chunk by chunk and in order. Memory for it grows with
// what has come, not with what was announced.
type message struct {
	total uint32
	b     []byte
}

// room is where the chunk of h goes.
func (m *message) room(h *header) ([]byte, error) {
	if h.Offset == 0 && m.b == nil {
		m.total = h.Total
		m.b = make([]byte, 0, h.Length)
	}
	if h.Total != m.total || int(h.Offset) != len(m.b) || m.whole() && h.Length > 0 {
		return nil, malformed("a chunk at %d of %d, %d of %d bytes have come", h.Offset, h.Total, len(m.b), m.total)
	}
	n := len(m.b)
	if cap(m.b) < n+int(h.Length) {
		m.b = append(make([]byte, 0, min(int(m.total), 2*(n+int(h.Length)))), m.b...)
	}
	m.b = m.b[:n+int(h.Length)]
	return m.b[n:], nil
}

func (m *message) whole() bool { return len(m.b) == int(m.total) }

// open checks a whole message and takes it apart.
func (m *message) open(blocks int) (sizes []uint32, body []byte, err error) {
	n := len(m.b) - sumBytes
	if n < 4*blocks {
		return nil, nil, malformed("a message of %d bytes with %d blocks", len(m.b), blocks)
	}
	if xxh3.Hash(m.b[:n]) != binary.LittleEndian.Uint64(m.b[n:]) {
		return nil, nil, malformed("a message's checksum is wrong")
	}
	if blocks > 0 {
		sizes = make([]uint32, blocks)
	}
	for i := range sizes {
		if sizes[i] = binary.LittleEndian.Uint32(m.b[4*i:]); sizes[i] > BlockBytesMax {
			return nil, nil, malformed("a block of %d bytes, at most %d are allowed", sizes[i], BlockBytesMax)
		}
	}
	return sizes, m.b[4*blocks : n : n], nil
}
