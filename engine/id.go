package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
)

// KeyMaxBytes bounds the length of a key.
const KeyMaxBytes = 1024

// blockID derives the 128-bit ID of a block: the first 16 bytes of SHA-256
// over
//
//	u32 32 | namespace ID (32 bytes)
//	u32  8 | incarnation  (u64)
//	u32  4 | group        (u32)
//	u32  n | key          (n bytes)
//
// with every number little endian. Each field carries its length, so no two
// different tuples share an input. scratch is reused between calls and
// returned, possibly grown.
func blockID(nsID *[32]byte, incarnation uint64, k Key, scratch []byte) (table.ID, []byte) {
	if planted.Active(planted.ForgetIncarnation) {
		incarnation = 0
	}
	b := scratch[:0]
	b = binary.LittleEndian.AppendUint32(b, 32)
	b = append(b, nsID[:]...)
	b = binary.LittleEndian.AppendUint32(b, 8)
	b = binary.LittleEndian.AppendUint64(b, incarnation)
	b = binary.LittleEndian.AppendUint32(b, 4)
	b = binary.LittleEndian.AppendUint32(b, k.Group)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Bytes)))
	b = append(b, k.Bytes...)
	sum := sha256.Sum256(b)
	return table.ID{
		Hi: binary.LittleEndian.Uint64(sum[0:8]),
		Lo: binary.LittleEndian.Uint64(sum[8:16]),
	}, b
}

// checksum is XXH3-64 of the pieces in order, seeded with the block's ID, so
// that another block's intact bytes fail as surely as damaged ones.
func checksum(id table.ID, pieces [][]byte) uint64 {
	seed := id.Lo ^ bits.RotateLeft64(id.Hi, 32)
	if len(pieces) == 1 {
		return xxh3.HashSeed(pieces[0], seed)
	}
	h := xxh3.NewSeed(seed)
	for _, p := range pieces {
		h.Write(p) // never fails: hash.Hash
	}
	return h.Sum64()
}

func idBytes(id table.ID) (b [16]byte) {
	binary.LittleEndian.PutUint64(b[0:8], id.Hi)
	binary.LittleEndian.PutUint64(b[8:16], id.Lo)
	return b
}

func idFromBytes(b []byte) table.ID {
	return table.ID{Hi: binary.LittleEndian.Uint64(b[0:8]), Lo: binary.LittleEndian.Uint64(b[8:16])}
}
