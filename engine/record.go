package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/spillway-kv/spillway/engine/table"
)

// Log records (docs/format/wal.md, "payloads"). All numbers are little endian.
// A record's own position is not stored in it: the log numbers its records.
//
//	put         u8 1 | u32 ns | u32 incarnation | ID 16 | u64 place | u64 checksum
//	            | u32 depth | u8 importance | u32 group | u16 key bytes | key
//	free        u8 2 | u32 ns | u32 incarnation | n x (ID 16 | u64 position of the put)
//	delete      u8 3 | as free, but an item means every put of the ID up to the
//	            position; appended with the log's barrier flag
//	quarantine  u8 4 | n x u64 place
//	segment gone u8 5 | u32 segment
//	drop        u8 6 | u32 ns | u32 incarnation: all incarnations up to it
const (
	recordPut         = 1
	recordFree        = 2
	recordDelete      = 3
	recordQuarantine  = 4
	recordSegmentGone = 5
	recordDrop        = 6

	putFixedBytes  = 1 + 4 + 4 + 16 + 8 + 8 + 4 + 1 + 4 + 2
	freeFixedBytes = 1 + 4 + 4
	freeItemBytes  = 16 + 8
	// freeItemsMax bounds one free record to about 24 KiB.
	freeItemsMax = 1024
)

// putRecord is one published block.
type putRecord struct {
	namespace   uint32
	incarnation uint32
	id          table.ID
	place       Place
	checksum    uint64
	depth       uint32
	importance  uint8
	group       uint32
	key         []byte
}

func (r *putRecord) append(b []byte) []byte {
	b = append(b, recordPut)
	b = binary.LittleEndian.AppendUint32(b, r.namespace)
	b = binary.LittleEndian.AppendUint32(b, r.incarnation)
	id := idBytes(r.id)
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.place))
	b = binary.LittleEndian.AppendUint64(b, r.checksum)
	b = binary.LittleEndian.AppendUint32(b, r.depth)
	b = append(b, r.importance)
	b = binary.LittleEndian.AppendUint32(b, r.group)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.key)))
	return append(b, r.key...)
}

// decodePut reads a put record; its key aliases b.
func decodePut(b []byte) (r putRecord, err error) {
	if len(b) < putFixedBytes || b[0] != recordPut {
		return r, fmt.Errorf("%w: put record of %d bytes", ErrCorrupt, len(b))
	}
	r.namespace = binary.LittleEndian.Uint32(b[1:])
	r.incarnation = binary.LittleEndian.Uint32(b[5:])
	r.id = idFromBytes(b[9:])
	r.place = Place(binary.LittleEndian.Uint64(b[25:]))
	r.checksum = binary.LittleEndian.Uint64(b[33:])
	r.depth = binary.LittleEndian.Uint32(b[41:])
	r.importance = b[45]
	r.group = binary.LittleEndian.Uint32(b[46:])
	keyBytes := int(binary.LittleEndian.Uint16(b[50:]))
	if keyBytes == 0 || keyBytes > KeyMaxBytes || len(b) != putFixedBytes+keyBytes {
		return r, fmt.Errorf("%w: put record of %d bytes names a key of %d", ErrCorrupt, len(b), keyBytes)
	}
	r.key = b[putFixedBytes:]
	return r, nil
}

// freeItem names one put whose block is gone, or, in a delete record, all puts
// of its ID up to position.
type freeItem struct {
	id       table.ID
	position uint64
}

func appendFree(b []byte, kind byte, ns, incarnation uint32, items []freeItem) []byte {
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, ns)
	b = binary.LittleEndian.AppendUint32(b, incarnation)
	for _, it := range items {
		id := idBytes(it.id)
		b = append(b, id[:]...)
		b = binary.LittleEndian.AppendUint64(b, it.position)
	}
	return b
}

// decodeFree reads a free or delete record and calls each for its items.
func decodeFree(b []byte, each func(ns, incarnation uint32, it freeItem)) error {
	if len(b) < freeFixedBytes || (len(b)-freeFixedBytes)%freeItemBytes != 0 {
		return fmt.Errorf("%w: free record of %d bytes", ErrCorrupt, len(b))
	}
	ns := binary.LittleEndian.Uint32(b[1:])
	incarnation := binary.LittleEndian.Uint32(b[5:])
	for p := b[freeFixedBytes:]; len(p) > 0; p = p[freeItemBytes:] {
		each(ns, incarnation, freeItem{id: idFromBytes(p), position: binary.LittleEndian.Uint64(p[16:])})
	}
	return nil
}

func appendQuarantine(b []byte, places []Place) []byte {
	b = append(b, recordQuarantine)
	for _, p := range places {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	return b
}

func decodeQuarantine(b []byte, each func(Place)) error {
	if len(b) < 1 || (len(b)-1)%8 != 0 {
		return fmt.Errorf("%w: quarantine record of %d bytes", ErrCorrupt, len(b))
	}
	for p := b[1:]; len(p) > 0; p = p[8:] {
		each(Place(binary.LittleEndian.Uint64(p)))
	}
	return nil
}

func appendSegmentGone(b []byte, segment uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, recordSegmentGone), segment)
}

func decodeSegmentGone(b []byte) (segment uint32, err error) {
	if len(b) != 5 {
		return 0, fmt.Errorf("%w: segment record of %d bytes", ErrCorrupt, len(b))
	}
	return binary.LittleEndian.Uint32(b[1:]), nil
}

func appendDrop(b []byte, ns, incarnation uint32) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, recordDrop), ns)
	return binary.LittleEndian.AppendUint32(b, incarnation)
}

func decodeDrop(b []byte) (ns, incarnation uint32, err error) {
	if len(b) != 9 {
		return 0, 0, fmt.Errorf("%w: drop record of %d bytes", ErrCorrupt, len(b))
	}
	return binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:]), nil
}
