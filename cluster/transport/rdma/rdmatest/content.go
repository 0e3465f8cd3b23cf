package rdmatest

import "encoding/binary"

// word i of a block's bytes.
func word(id uint64, i int) uint64 {
	z := id<<20 + uint64(i)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	return z ^ z>>31
}

// fill makes the bytes of a block.
func fill(b []byte, id uint64) {
	i := 0
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, word(id, i))
		i++
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], word(id, i))
	copy(b, last[:])
}

// differs is the offset of the first byte that is not the block's, -1 if there is none.
func differs(b []byte, id uint64) int {
	for i := 0; i*8 < len(b); i++ {
		at := b[i*8:]
		if len(at) >= 8 && binary.LittleEndian.Uint64(at) == word(id, i) {
			continue
		}
		var want [8]byte
		binary.LittleEndian.PutUint64(want[:], word(id, i))
		for k := range min(8, len(at)) {
			if at[k] != want[k] {
				return i*8 + k
			}
		}
	}
	return -1
}

// sumOf stands for the checksum of a block.
func sumOf(id uint64) uint64 { return ^id * 31 }

// cut makes pieces of b, an empty one among them if there are many.
func cut(b []byte, pieces int) (all [][]byte) {
	for i := pieces; i > 1; i-- {
		n := len(b) / i
		if i == 3 {
			n = 0
		}
		all, b = append(all, b[:n:n]), b[n:]
	}
	return append(all, b)
}
