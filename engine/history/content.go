package history

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Every put has a number of its own, and its bytes are derived from it: the
// first word names the put, the others are its number mixed with their place.
const contentMagic = 0x5b11a40000000000

func contentWord(put uint64, i int) uint64 {
	if i == 0 {
		return contentMagic | put
	}
	z := put<<24 + uint64(i)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// content is the block of a put.
func content(put uint64, blockBytes int) []byte {
	b := make([]byte, (blockBytes+7)/8*8)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], contentWord(put, i/8))
	}
	return b[:blockBytes]
}

// putOf reads the number of the put that a block claims to be.
func putOf(block []byte) uint64 {
	w := binary.LittleEndian.Uint64(block)
	if w&contentMagic != contentMagic {
		return 0
	}
	return w &^ uint64(contentMagic)
}

// change is a word of a block that a client has changed; the zero value is none.
type change struct {
	offset int // of 8 bytes
	mask   uint64
}

func (c change) apply(block []byte) {
	if c.mask != 0 {
		w := binary.LittleEndian.Uint64(block[c.offset:])
		binary.LittleEndian.PutUint64(block[c.offset:], w^c.mask)
	}
}

// sameBut compares blocks, leaving out what a client scribbled into got.
func sameBut(got, want []byte, scribbled change) bool {
	if scribbled.mask == 0 {
		return bytes.Equal(got, want)
	}
	at := scribbled.offset
	return bytes.Equal(got[:at], want[:at]) && bytes.Equal(got[at+8:], want[at+8:])
}

// describe tells what a wrong block is made of, by sector.
func describe(block []byte, puts uint64, nameOf func(put uint64) string) string {
	const sector = 512
	var out, last string
	for at := 0; at < len(block); at += sector {
		part := block[at:min(at+sector, len(block))]
		name := sectorName(part, at, puts, nameOf)
		if name != last {
			out += fmt.Sprintf(" [%d..] %s", at, name)
			last = name
		}
	}
	return out
}

func sectorName(part []byte, at int, puts uint64, nameOf func(put uint64) string) string {
	if len(bytes.Trim(part, "\x00")) == 0 {
		return "zeros"
	}
	if len(part) >= 16 {
		word := binary.LittleEndian.Uint64(part[8:])
		for put := uint64(1); put <= puts; put++ {
			if contentWord(put, at/8+1) == word {
				return nameOf(put)
			}
		}
	}
	return fmt.Sprintf("unknown bytes %x", part[:min(16, len(part))])
}
