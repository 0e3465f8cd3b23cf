// Package payload makes the bytes that a benchmark writes, and proves the bytes
// that it reads: every 4 KiB of a block say whose they are.
//
// A block is cut into units of UnitBytes; a shorter last one is a unit too, if a
// header and a byte fit. Of a unit, little-endian:
//
//	offset  bytes  what
//	     0      8  magic "SPLWFIO1"
//	     8      8  space: 0 for a file or a device; else the namespace and the length of the block
//	    16      8  place: offset of the unit in the file, or number of the block
//	    24      4  index of the unit within the block; 0 where place is an offset
//	    28      1  Check that was used
//	    29      3  zero
//	    32      8  seed of the body; 0: the body depends on the index alone
//	    40     32  sum of the body: CRC-32C (4 bytes), XXH3-64 (8) or SHA-256 (32); else zero
//	    72      8  XXH3-64 of bytes 0..71
//	    80      -  body: a stream that seed, space, place and index decide
//
// So bytes that come from another place, another block, another write of half the
// block, or that changed, are told apart from right ones. What cannot be seen is a
// write that was acknowledged and lost over an earlier one of the same seed.
package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/zeebo/xxh3"
)

// UnitBytes is how much of a block describes itself on its own.
const UnitBytes = 4096

const (
	magic       = "SPLWFIO1"
	headerBytes = 80
	checkOffset = 28
	sumOffset   = 40
	hashOffset  = 72
	unitMin     = headerBytes + 1
)

// Check is how a body is proven.
type Check uint8

// Checks.
const (
	CRC32C  Check = iota + 1
	XXHash        // XXH3-64
	SHA256        //
	Pattern       // every byte is made again and compared
	checkEnd
)

// Identity says whose bytes a block holds.
type Identity struct {
	Space uint64
	Place uint64 // of the first unit
	// Offsets: Place is an offset in a file and grows from unit to unit; so a block
	// can be proven in pieces of another length than it was written in.
	Offsets bool
}

// At is the identity of what lies at an offset of a file.
func At(offset int64) Identity { return Identity{Place: uint64(offset), Offsets: true} }

// Of is the identity of a numbered block of a namespace.
func Of(namespace uint16, blockBytes int, block uint64) Identity {
	return Identity{Space: (uint64(namespace)+1)<<32 | uint64(blockBytes), Place: block}
}

// unit is the header's part of an identity.
func (id Identity) unit(i int) (place uint64, index uint32) {
	if id.Offsets {
		return id.Place + uint64(i)*UnitBytes, 0
	}
	return id.Place, uint32(i)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Maker fills blocks. It belongs to one goroutine.
type Maker struct {
	Check Check
	Seed  uint64
	// ZeroPercent of each body are zeros, which compress away.
	ZeroPercent int
	// SamePercent of the blocks have the same bodies.
	SamePercent int
}

// Fill writes the whole of dst.
func (m *Maker) Fill(dst []byte, id Identity) {
	seed := m.Seed<<1 | 1 // never 0
	if m.SamePercent > 0 && int(Mix(id.Place+m.Seed)%100) < m.SamePercent {
		seed = 0
	}
	for i := 0; len(dst) > 0; i++ {
		n := min(UnitBytes, len(dst))
		m.fillUnit(dst[:n], id, i, seed)
		dst = dst[n:]
	}
}

func (m *Maker) fillUnit(b []byte, id Identity, i int, seed uint64) {
	if len(b) < unitMin {
		clear(b)
		return
	}
	place, index := id.unit(i)
	header, body := b[:headerBytes], b[headerBytes:]
	zeros := len(body) * m.ZeroPercent / 100
	clear(body[:zeros])
	Stream(body[zeros:], start(seed, id.Space, place, index))
	clear(header)
	copy(header, magic)
	binary.LittleEndian.PutUint64(header[8:], id.Space)
	binary.LittleEndian.PutUint64(header[16:], place)
	binary.LittleEndian.PutUint32(header[24:], index)
	header[checkOffset] = byte(m.Check)
	header[29] = byte(m.ZeroPercent)
	binary.LittleEndian.PutUint64(header[32:], seed)
	sum(header[sumOffset:hashOffset], body, m.Check)
	binary.LittleEndian.PutUint64(header[hashOffset:], xxh3.Hash(header[:hashOffset]))
}

// Noise fills dst with bytes that describe nothing and do not compress, but for
// zeroPercent of every unit.
func Noise(dst []byte, seed uint64, zeroPercent int) {
	for i := 0; len(dst) > 0; i++ {
		b := dst[:min(UnitBytes, len(dst))]
		zeros := len(b) * zeroPercent / 100
		Stream(b[zeros:], Mix(seed)+uint64(i))
		clear(b[:zeros])
		dst = dst[len(b):]
	}
}

// Stir changes some bytes of each unit, so that no two writes of a buffer are equal.
// What described the buffer before, such as a block that was read into it, does so no
// more: to Prove a stirred buffer is Foreign.
func Stir(b []byte, number uint64) {
	for at := 0; at+unitMin <= len(b); at += UnitBytes {
		unit := b[at:min(at+UnitBytes, len(b))]
		binary.LittleEndian.PutUint64(unit, Mix(number+uint64(at)))
		unit[checkOffset] = 0
		binary.LittleEndian.PutUint64(unit[len(unit)-8:], Mix(number+uint64(at)+golden))
	}
}

// sum writes the sum of body into dst.
func sum(dst, body []byte, check Check) {
	switch check {
	case CRC32C:
		binary.LittleEndian.PutUint32(dst, crc32.Checksum(body, castagnoli))
	case XXHash:
		binary.LittleEndian.PutUint64(dst, xxh3.Hash(body))
	case SHA256:
		s := sha256.Sum256(body)
		copy(dst, s[:])
	}
}

// Finding is what Prove found.
type Finding uint8

// Findings.
const (
	Right   Finding = iota // all bytes are those that were written there
	Foreign                // nothing in it was written by a Maker: it proves nothing
	Wrong                  // damage
)

// Prove compares a block that was read with what it must be. Blocks may have been
// written with any Check and seed: the header says. offset is where the first
// wrong unit begins, -1 if there is none.
func Prove(b []byte, id Identity) (f Finding, offset int) {
	right, foreign, firstForeign := 0, 0, -1
	for i, at := 0, 0; at < len(b); i++ {
		n := min(UnitBytes, len(b)-at)
		switch proveUnit(b[at:at+n], id, i) {
		case Right:
			right++
		case Foreign:
			if foreign++; firstForeign < 0 {
				firstForeign = at
			}
		case Wrong:
			return Wrong, at
		}
		at += n
	}
	switch {
	case foreign == 0:
		return Right, -1
	case right == 0:
		return Foreign, -1
	default:
		return Wrong, firstForeign
	}
}

func proveUnit(b []byte, id Identity, i int) Finding {
	if len(b) < unitMin {
		return Right // nothing fits: nothing was promised
	}
	place, index := id.unit(i)
	header, body := b[:headerBytes], b[headerBytes:]
	ours := string(header[:len(magic)]) == magic
	named := binary.LittleEndian.Uint64(header[8:]) == id.Space && binary.LittleEndian.Uint64(header[16:]) == place &&
		binary.LittleEndian.Uint32(header[24:]) == index
	sealed := binary.LittleEndian.Uint64(header[hashOffset:]) == xxh3.Hash(header[:hashOffset])
	switch {
	case !ours && !sealed && (!named || header[checkOffset] == 0):
		return Foreign
	case !ours || !sealed || !named:
		return Wrong
	}
	if !bodyRight(header, body, place, index) {
		return Wrong
	}
	return Right
}

func bodyRight(header, body []byte, place uint64, index uint32) bool {
	check := Check(header[checkOffset])
	if check == Pattern {
		zeros := len(body) * int(header[29]) / 100
		for _, b := range body[:zeros] {
			if b != 0 {
				return false
			}
		}
		return StreamEqual(body[zeros:], start(binary.LittleEndian.Uint64(header[32:]), binary.LittleEndian.Uint64(header[8:]), place, index))
	}
	if check == 0 || check >= checkEnd {
		return false
	}
	var want [hashOffset - sumOffset]byte
	sum(want[:], body, check)
	return bytes.Equal(want[:], header[sumOffset:hashOffset])
}
