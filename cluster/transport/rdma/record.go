package rdma

import (
	"encoding/binary"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// recordBytes is the length of a line of a result table.
const recordBytes = 32

// record is what the server writes into a line of the caller's result table when a block
// is answered.
type record struct {
	request    uint64
	sum        uint64 // as the handler gave it
	block      uint32
	generation uint32
	status     transport.Status // Done, Miss or Refused
	before     uint16           // line of the record before it in the batch, or noLine
	bytes      uint32           // of the block
}

// noLine ends the list of a batch.
const noLine = 0xffff

func (m *record) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.request)
	b = binary.LittleEndian.AppendUint64(b, m.sum)
	b = binary.LittleEndian.AppendUint32(b, m.block)
	b = binary.LittleEndian.AppendUint32(b, m.generation)
	b = append(b, recordStatus(m.status), 0)
	b = binary.LittleEndian.AppendUint16(b, m.before)
	return binary.LittleEndian.AppendUint32(b, m.bytes)
}

// recordStatus is a status as records have it.
func recordStatus(s transport.Status) uint8 {
	switch s {
	case transport.Done:
		return 1
	case transport.Miss:
		return 2
	case transport.Refused:
		return 3
	}
	panic("a status that records do not have")
}

// parseRecord takes a line apart. Nobody but the peer vouches for it: the caller compares
// it with what it asked for.
func parseRecord(b *[recordBytes]byte) (record, error) {
	m := record{
		request: binary.LittleEndian.Uint64(b[0:]), sum: binary.LittleEndian.Uint64(b[8:]),
		block: binary.LittleEndian.Uint32(b[16:]), generation: binary.LittleEndian.Uint32(b[20:]),
		before: binary.LittleEndian.Uint16(b[26:]), bytes: binary.LittleEndian.Uint32(b[28:]),
	}
	switch b[24] {
	case 1:
		m.status = transport.Done
	case 2:
		m.status = transport.Miss
	case 3:
		m.status = transport.Refused
	}
	if m.status == transport.Unanswered || b[25] != 0 || m.generation >= generationEnd || m.before != noLine && m.before >= linesMax {
		return record{}, malformed("a record of status %d, generation %d, behind line %d", b[24], m.generation, m.before)
	}
	return m, nil
}

// The immediate of a batch is the line of its last record and that line's generation. A mark
// has its number in place of the line, and a generation that no line has; the probe is the
// mark that no fence asks for.
const (
	lineBits       = 12
	generationBits = 32 - lineBits
	generationEnd  = 1<<generationBits - 1 // generations are below
	marksMax       = linesMax - 1
	probeImmediate = 1<<32 - 1
)

func immediateOf(line uint16, generation uint32) uint32 {
	return uint32(line)<<generationBits | generation
}

func markImmediate(mark uint16) uint32 { return immediateOf(mark, generationEnd) }

func lineOf(immediate uint32) (line uint16, generation uint32) {
	return uint16(immediate >> generationBits), immediate & (1<<generationBits - 1)
}
