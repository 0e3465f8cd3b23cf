package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/spillway-kv/spillway/engine/table"
)

// indexEntry is one block of the durable index.
type indexEntry struct {
	namespace   uint32
	incarnation uint32
	id          table.ID
	position    uint64
	place       Place
	checksum    uint64
	depth       uint32
	importance  uint8
	group       uint32
	key         []byte
}

func appendIndexKey(b []byte, ns, incarnation uint32, id table.ID, position uint64) []byte {
	b = append(b, prefixBlock)
	b = binary.BigEndian.AppendUint32(b, ns)
	b = binary.BigEndian.AppendUint32(b, incarnation)
	raw := idBytes(id)
	b = append(b, raw[:]...)
	return binary.BigEndian.AppendUint64(b, position)
}

func appendIndexValue(b []byte, r *putRecord) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.place))
	b = binary.LittleEndian.AppendUint64(b, r.checksum)
	b = binary.LittleEndian.AppendUint32(b, r.depth)
	b = append(b, r.importance)
	b = binary.LittleEndian.AppendUint32(b, r.group)
	return append(b, r.key...)
}

// decodeIndexEntry reads one entry; its key aliases value.
func decodeIndexEntry(key, value []byte) (e indexEntry, err error) {
	if len(key) != indexKeyBytes || key[0] != prefixBlock ||
		len(value) < indexFixedValue || len(value) > indexFixedValue+KeyMaxBytes {
		return e, fmt.Errorf("%w: index entry with a key of %d and a value of %d bytes", ErrCorrupt, len(key), len(value))
	}
	e.namespace = binary.BigEndian.Uint32(key[1:])
	e.incarnation = binary.BigEndian.Uint32(key[5:])
	e.id = idFromBytes(key[9:])
	e.position = binary.BigEndian.Uint64(key[25:])
	e.place = Place(binary.LittleEndian.Uint64(value[0:]))
	e.checksum = binary.LittleEndian.Uint64(value[8:])
	e.depth = binary.LittleEndian.Uint32(value[16:])
	e.importance = value[20]
	e.group = binary.LittleEndian.Uint32(value[21:])
	e.key = value[indexFixedValue:]
	if e.position > table.PositionMax {
		return e, fmt.Errorf("%w: index entry of position %d", ErrCorrupt, e.position)
	}
	return e, nil
}

func quarantineKey(p Place) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixQuarantine}, uint64(p))
}

func decodeQuarantineKey(key []byte) (Place, error) {
	if len(key) != 9 || key[0] != prefixQuarantine {
		return 0, fmt.Errorf("%w: quarantine key of %d bytes", ErrCorrupt, len(key))
	}
	return Place(binary.BigEndian.Uint64(key[1:])), nil
}

// dropPrefix begins the keys of one incarnation of a namespace.
func dropPrefix(ns, incarnation uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte{prefixBlock}, ns)
	return binary.BigEndian.AppendUint32(b, incarnation)
}

func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
