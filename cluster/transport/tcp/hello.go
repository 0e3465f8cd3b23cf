package tcp

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

const (
	magic           = "SPWLPEER"
	formatVersion   = 1
	helloHeadBytes  = 16
	helloBodyMax    = 1024
	helloFixedBytes = 56
	nameBytesMax    = 255
	textBytesMax    = 512
	tokenBytes      = 16
)

// part is what a hello is for.
type part uint8

const (
	partCalls   part = 0 // a new link: this connection is that of its calls
	partBlocks  part = 1 // another connection of the link that Token names
	partWelcome part = 2 // the answer
	partRefusal part = 3 // the other answer: Code and Text say why; the connection ends
)

// hello is the first message of either side.
type hello struct {
	transport.Hello
	Part      part
	Code      transport.Code
	SilenceMS uint32 // the sender takes silence of so long for an end
	Token     [tokenBytes]byte
	// Of a welcome: what the server allows one link.
	Handlers      uint32
	InFlightBytes uint64
	Text          string
}

func (h *hello) silence() time.Duration { return time.Duration(h.SilenceMS) * time.Millisecond }

func (h *hello) append(b []byte) []byte {
	le, start := binary.LittleEndian, len(b)
	b = append(b, magic...)
	b = le.AppendUint16(b, formatVersion)
	b = append(b, byte(h.Part), byte(h.Code), 0, 0, 0, 0)
	b = append(b, h.Node[:]...)
	b = append(b, h.ProtocolLow, h.ProtocolHigh, 0, 0)
	b = le.AppendUint32(b, h.SilenceMS)
	b = append(b, h.Token[:]...)
	b = le.AppendUint32(b, h.Handlers)
	b = le.AppendUint64(b, h.InFlightBytes)
	b = le.AppendUint32(b, 0)
	for _, s := range []struct {
		text string
		most int
	}{{h.PoolID, nameBytesMax}, {h.Name, nameBytesMax}, {h.Text, textBytesMax}} {
		text := s.text[:min(len(s.text), s.most)]
		b = append(le.AppendUint16(b, uint16(len(text))), text...)
	}
	le.PutUint32(b[start+12:], uint32(len(b)-start-helloHeadBytes))
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// looksLikeHello says whether the head of a connection is of this protocol at all.
func looksLikeHello(head []byte) bool { return string(head[:len(magic)]) == magic }

// helloBytes checks the head of a hello and says how many bytes follow it.
func helloBytes(head []byte) (int, error) {
	le := binary.LittleEndian
	switch n := le.Uint32(head[12:]); {
	case !looksLikeHello(head):
		return 0, malformed("it does not begin with a hello")
	case le.Uint16(head[8:]) != formatVersion:
		return 0, fmt.Errorf("%w: its frames are of format %d, here of %d", transport.ErrVersion, le.Uint16(head[8:]), formatVersion)
	case n < helloFixedBytes || n > helloBodyMax+helloFixedBytes:
		return 0, malformed("a hello of %d bytes", n)
	default:
		return int(n) + 4, nil
	}
}

// parseHello reads a whole hello: its head, and what helloBytes says follows.
func parseHello(head, rest []byte) (h hello, err error) {
	le := binary.LittleEndian
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, rest[:len(rest)-4])
	if sum != le.Uint32(rest[len(rest)-4:]) {
		return h, malformed("the checksum of its hello is wrong")
	}
	b := rest[:len(rest)-4]
	h.Part, h.Code = part(head[10]), transport.Code(head[11])
	h.Node = member.ID(b[:16])
	h.ProtocolLow, h.ProtocolHigh = b[16], b[17]
	h.SilenceMS = le.Uint32(b[20:])
	copy(h.Token[:], b[24:])
	h.Handlers = le.Uint32(b[40:])
	h.InFlightBytes = le.Uint64(b[44:])
	b = b[helloFixedBytes:]
	for _, at := range []*string{&h.PoolID, &h.Name, &h.Text} {
		if len(b) < 2 || len(b)-2 < int(le.Uint16(b)) {
			return h, malformed("a text of its hello is cut off")
		}
		n := 2 + int(le.Uint16(b))
		*at, b = string(b[2:n]), b[n:]
	}
	if len(b) > 0 {
		return h, malformed("%d bytes behind its hello", len(b))
	}
	return h, h.check()
}

func (h *hello) check() error {
	switch {
	case h.Part > partRefusal:
		return malformed("part %d of its hello", h.Part)
	case h.Part != partRefusal && h.silence() < silenceMin:
		return malformed("it takes silence of %v for an end, %v is the least", h.silence(), silenceMin)
	case h.Part == partWelcome && (h.Handlers == 0 || h.InFlightBytes == 0):
		return malformed("it allows %d calls and %d bytes", h.Handlers, h.InFlightBytes)
	}
	return nil
}

// readHello reads a hello whose head has been read.
func readHello(r io.Reader, head []byte) (hello, error) {
	n, err := helloBytes(head)
	if err != nil {
		return hello{}, err
	}
	rest := make([]byte, n)
	if _, err := io.ReadFull(r, rest); err != nil {
		return hello{}, unexpected(err)
	}
	return parseHello(head, rest)
}

// common is the highest version that both speak.
func common(a, b transport.Hello) (uint8, error) {
	low, high := max(a.ProtocolLow, b.ProtocolLow), min(a.ProtocolHigh, b.ProtocolHigh)
	if low > high {
		return 0, fmt.Errorf("%w: %s speaks %d to %d, %s %d to %d", transport.ErrVersion,
			a.Name, a.ProtocolLow, a.ProtocolHigh, b.Name, b.ProtocolLow, b.ProtocolHigh)
	}
	return high, nil
}
