package rdma

import (
	"encoding/binary"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/wire/fields"
)

// fetchRequest asks for blocks, and says where they go.
type fetchRequest struct {
	session uint64
	request uint64 // from 1
	oldest  uint64 // as a fence's
	kind    transport.Kind
	body    []byte
	blocks  []wantedBlock
}

// wantedBlock is one block of a fetch.
type wantedBlock struct {
	size       uint32
	generation uint32 // of the line
	line       uint16 // of the result table of the rail
	rail       uint8
	pieces     []target // size bytes together
}

// target is memory of the caller.
type target struct {
	address uint64
	key     uint32
	bytes   uint32
}

const (
	wantedBytes = 16 // of a block without its pieces
	targetBytes = 16
)

func (m *fetchRequest) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.session)
	b = binary.LittleEndian.AppendUint64(b, m.request)
	b = binary.LittleEndian.AppendUint64(b, m.oldest)
	b = append(b, uint8(m.kind), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.blocks)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.body)))
	b = append(b, m.body...)
	for i := range m.blocks {
		w := &m.blocks[i]
		b = binary.LittleEndian.AppendUint32(b, w.size)
		b = binary.LittleEndian.AppendUint32(b, w.generation)
		b = binary.LittleEndian.AppendUint16(b, w.line)
		b = append(b, w.rail, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(w.pieces)))
		for _, p := range w.pieces {
			b = binary.LittleEndian.AppendUint64(b, p.address)
			b = binary.LittleEndian.AppendUint32(b, p.key)
			b = binary.LittleEndian.AppendUint32(b, p.bytes)
		}
	}
	return b
}

// parseFetch takes a fetch apart; its body stays a part of b.
func parseFetch(b []byte) (fetchRequest, error) {
	r := fields.New(b, errMalformed)
	m := fetchRequest{session: r.U64("session"), request: r.U64("request"), oldest: r.U64("oldest request"), kind: transport.Kind(r.U8("kind"))}
	zeros(&r, 3)
	blocks := r.U32("blocks")
	m.body = r.Take(int(r.U32("length of the body")), "body")
	switch {
	case r.Err() != nil:
	case m.request == 0 || m.oldest == 0 || m.oldest > m.request:
		r.Fail("request %d, the oldest is %d", m.request, m.oldest)
	case m.kind >= kindOpen:
		r.Fail("a fetch of kind %#x", m.kind)
	case blocks > blocksMax || int(blocks) > len(r.Rest())/wantedBytes:
		r.Fail("%d blocks in %d bytes", blocks, len(r.Rest()))
	}
	if r.Err() != nil {
		return fetchRequest{}, r.Err()
	}
	m.blocks = make([]wantedBlock, blocks)
	pieces := make([]target, 0, (len(r.Rest())-int(blocks)*wantedBytes)/targetBytes)
	for i := range m.blocks {
		pieces = m.blocks[i].take(&r, pieces)
	}
	if err := r.Done(); err != nil {
		return fetchRequest{}, err
	}
	return m, nil
}

// take reads one block; its pieces are put behind those in room, which has room for all.
func (w *wantedBlock) take(r *fields.Reader, room []target) []target {
	w.size, w.generation = r.U32("size of a block"), r.U32("generation")
	w.line, w.rail = r.U16("line"), r.U8("rail")
	zeros(r, 1)
	n := r.U32("pieces")
	switch {
	case r.Err() != nil:
		return room
	case w.size > blockBytesMax || w.generation >= generationEnd || w.line >= linesMax || w.rail >= railsMax:
		r.Fail("a block of %d bytes for line %d of rail %d, generation %d", w.size, w.line, w.rail, w.generation)
		return room
	case int64(n) > int64(len(r.Rest())/targetBytes) || int(n) > cap(room)-len(room):
		r.Fail("%d pieces in %d bytes", n, len(r.Rest()))
		return room
	}
	first, sum := len(room), uint64(0)
	for range n {
		p := target{address: r.U64("address"), key: r.U32("key"), bytes: r.U32("bytes")}
		if p.bytes == 0 || p.address+uint64(p.bytes) < p.address {
			r.Fail("a piece of %d bytes at %#x", p.bytes, p.address)
		}
		sum += uint64(p.bytes)
		room = append(room, p)
	}
	if w.pieces = room[first:len(room):len(room)]; sum != uint64(w.size) {
		r.Fail("a block of %d bytes in pieces of %d", w.size, sum)
	}
	return room
}

// fetchAnswer is what the handler said of a fetch.
type fetchAnswer struct {
	failed *transport.RemoteError // nothing is on its way any more then
	answer []byte                 // else
}

const answerHeadBytes = 8

func (m *fetchAnswer) append(b []byte) []byte {
	head := [answerHeadBytes]byte{}
	if m.failed == nil {
		return append(append(b, head[:]...), m.answer...)
	}
	head[0], head[1] = 1, uint8(m.failed.Code)
	return append(append(b, head[:]...), m.failed.Text...)
}

// parseFetched takes the answer to a fetch apart; the handler's stays a part of b.
func parseFetched(b []byte) (fetchAnswer, error) {
	r := fields.New(b, errMalformed)
	outcome, code := r.U8("outcome"), r.U8("code")
	zeros(&r, 6)
	if outcome > 1 || outcome == 0 && code != 0 {
		r.Fail("outcome %d, code %d", outcome, code)
	}
	switch {
	case r.Err() != nil:
		return fetchAnswer{}, r.Err()
	case outcome == 1:
		return fetchAnswer{failed: &transport.RemoteError{Code: transport.Code(code), Text: string(r.Rest())}}, nil
	}
	return fetchAnswer{answer: r.Rest()}, nil
}
