package historytest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// blockBytes is the size of every block.
const blockBytes = 4096

// Every put of a block has a number of its own, and its bytes are derived from it: the
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
func content(put uint64) []byte {
	b := make([]byte, blockBytes)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], contentWord(put, i/8))
	}
	return b
}

// putOf is the number of the put whose block this is; an error says that it is none.
func putOf(block []byte) (uint64, error) {
	w := binary.LittleEndian.Uint64(block)
	put := w &^ uint64(contentMagic)
	if w&contentMagic != contentMagic || put > 1<<32 || !bytes.Equal(block, content(put)) {
		return 0, fmt.Errorf("WRONG BYTES: not the whole bytes of any put; they begin with % x", block[:16])
	}
	return put, nil
}
