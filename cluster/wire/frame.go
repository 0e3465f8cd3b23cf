package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/wire/fields"
)

const (
	// HeaderBytes is the length of a frame's header.
	HeaderBytes = 16
	// FrameBytesMax bounds the body of a frame once the handshake is done.
	FrameBytesMax = 4 << 20
	// HelloBytesMax bounds it before.
	HelloBytesMax = 64 << 10
	// KeyBytesMax bounds one key.
	KeyBytesMax = 1024
)

// Header is the beginning of a frame.
type Header struct {
	BodyBytes uint32
	Type      Type
	Request   uint64
}

// ParseHeader reads the first HeaderBytes of b, of which there must be so many.
func ParseHeader(b []byte, bodyBytesMax int) (Header, error) {
	h := Header{BodyBytes: binary.LittleEndian.Uint32(b), Type: Type(b[4]), Request: binary.LittleEndian.Uint64(b[8:])}
	switch {
	case int64(h.BodyBytes) > int64(bodyBytesMax):
		return h, fmt.Errorf("%w: a body of %d bytes, at most %d are allowed here", ErrMalformed, h.BodyBytes, bodyBytesMax)
	case b[5] != 0 || b[6] != 0 || b[7] != 0:
		return h, fmt.Errorf("%w: flags %#x, reserved %#x%02x in a header", ErrMalformed, b[5], b[7], b[6])
	}
	return h, nil
}

// Begin appends a header, to be completed by End, and returns where it starts.
func Begin(b []byte, t Type, request uint64) ([]byte, int) {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(t), 0, 0, 0)
	return binary.LittleEndian.AppendUint64(b, request), start
}

// End sets the length of the frame that starts at start and ends with b.
func End(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-HeaderBytes))
	return b
}

// Message is the body of a frame.
type Message interface {
	Append(b []byte) []byte
}

// AppendFrame appends a whole frame; m may be nil for an empty body.
func AppendFrame(b []byte, t Type, request uint64, m Message) []byte {
	b, start := Begin(b, t, request)
	if m != nil {
		b = m.Append(b)
	}
	return End(b, start)
}

// reader takes fields off a body.
type reader struct{ fields.Reader }

func read(body []byte) reader { return reader{fields.New(body, ErrMalformed)} }

func (r *reader) text(what string) string { return string(r.Take(int(r.U16(what)), what)) }

// zeros takes n bytes that must be 0.
func (r *reader) zeros(n int, what string) {
	for _, b := range r.Take(n, what) {
		if b != 0 {
			r.Fail("%s is not 0", what)
			return
		}
	}
}

// appendText appends a string, cut at what its length can say.
func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), 1<<16-1)]
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}
