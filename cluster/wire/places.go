package wire

import (
	"encoding/binary"
	"iter"
)

// Keys are the keys of one request, in the memory of its body.
type Keys struct {
	n     int
	fixed int // bytes of each; 0 if they differ
	raw   []byte
}

// Len is the number of keys.
func (k Keys) Len() int { return k.n }

// All yields the keys in order. They refer to the body.
func (k Keys) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		rest := k.raw
		for i := range k.n {
			size := k.fixed
			if size == 0 {
				size = int(binary.LittleEndian.Uint16(rest))
				rest = rest[2:]
			}
			if !yield(i, rest[:size:size]) {
				return
			}
			rest = rest[size:]
		}
	}
}

// MakeKeys packs keys; each must have 1 to KeyBytesMax bytes.
func MakeKeys(keys [][]byte) Keys {
	k := Keys{n: len(keys)}
	if len(keys) > 0 {
		k.fixed = len(keys[0])
	}
	total := 0
	for _, key := range keys {
		if len(key) != k.fixed {
			k.fixed = 0
		}
		total += 2 + len(key)
	}
	k.raw = make([]byte, 0, total)
	for _, key := range keys {
		if k.fixed == 0 {
			k.raw = binary.LittleEndian.AppendUint16(k.raw, uint16(len(key)))
		}
		k.raw = append(k.raw, key...)
	}
	return k
}

func (k Keys) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(k.n))
	b = binary.LittleEndian.AppendUint16(b, uint16(k.fixed))
	return append(append(b, 0, 0), k.raw...)
}

func (r *reader) keys() (k Keys) {
	k.n, k.fixed = int(r.U32("number of keys")), int(r.U16("key bytes"))
	r.zeros(2, "reserved")
	if k.fixed > KeyBytesMax {
		r.Fail("keys of %d bytes, at most %d are allowed", k.fixed, KeyBytesMax)
	}
	if k.fixed > 0 {
		k.raw = r.Take(k.n*k.fixed, "keys")
		return k
	}
	whole, length := r.Rest(), 0
	for i := 0; i < k.n && r.Err() == nil; i++ {
		n := int(r.U16("length of a key"))
		if r.Err() == nil && (n == 0 || n > KeyBytesMax) {
			r.Fail("key %d has %d bytes, want 1 to %d", i, n, KeyBytesMax)
		}
		r.Take(n, "a key")
		length += 2 + n
	}
	if r.Err() == nil {
		k.raw = whole[:length:length]
	}
	return k
}

// Piece is a part of a block in a region.
type Piece struct {
	Region      uint32
	LengthBytes uint32
	Offset      uint64
}

// pieceBytes is the length of a Piece.
const pieceBytes = 16

// Places are where the blocks of one request lie, in the memory of its body.
type Places struct {
	n, each int
	raw     []byte
}

// Each is how many pieces every key has.
func (p Places) Each() int { return p.each }

// At is piece j of key i.
func (p Places) At(i, j int) Piece {
	b := p.raw[(i*p.each+j)*pieceBytes:]
	return Piece{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])}
}

// MakePlaces packs the pieces of all keys, key after key, of which each has so
// many.
func MakePlaces(each int, pieces []Piece) Places {
	p := Places{each: each, raw: make([]byte, 0, len(pieces)*pieceBytes)}
	if each > 0 {
		p.n = len(pieces) / each
	}
	for _, piece := range pieces {
		p.raw = binary.LittleEndian.AppendUint32(p.raw, piece.Region)
		p.raw = binary.LittleEndian.AppendUint32(p.raw, piece.LengthBytes)
		p.raw = binary.LittleEndian.AppendUint64(p.raw, piece.Offset)
	}
	return p
}

func (p Places) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(p.each))
	return append(append(b, 0, 0), p.raw...)
}

// places takes the places of n keys.
func (r *reader) places(n int) (p Places) {
	p.n, p.each = n, int(r.U16("pieces of each key"))
	r.zeros(2, "reserved")
	if p.each == 0 && n > 0 {
		r.Fail("keys without a piece")
	}
	p.raw = r.Take(n*p.each*pieceBytes, "pieces")
	return p
}
