package replay

import "encoding/binary"

// ContentName names the way a block's bytes derive from its id. It is part of
// the namespace's descriptor, so that another way never meets these bytes.
const ContentName = "splitmix64-v1"

const (
	golden  = 0x9e3779b97f4a7c15
	golden2 = 2 * golden & (1<<64 - 1) // multiples wrap at 64 bits
	golden3 = 3 * golden & (1<<64 - 1)
	golden4 = 4 * golden & (1<<64 - 1)

	mixA = 0xbf58476d1ce4e5b9
	mixB = 0x94d049bb133111eb
)

// mix is the output function of the splitmix64 generator.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * mixA
	x = (x ^ x>>27) * mixB
	return x ^ x>>31
}

// start is where the stream of an id begins.
func start(id uint64) uint64 { return mix(id*golden + golden) }

// Fill writes the content of block id into dst: word i, little-endian, is mix
// of the stream's start plus i+1 times the golden ratio; a shorter last word is
// cut.
func Fill(dst []byte, id uint64) {
	x := start(id)
	for ; len(dst) >= 32; dst = dst[32:] {
		binary.LittleEndian.PutUint64(dst[0:8], mix(x+golden))
		binary.LittleEndian.PutUint64(dst[8:16], mix(x+golden2))
		binary.LittleEndian.PutUint64(dst[16:24], mix(x+golden3))
		x += golden4
		binary.LittleEndian.PutUint64(dst[24:32], mix(x))
	}
	for len(dst) > 0 {
		x += golden
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], mix(x))
		dst = dst[copy(dst, word[:]):]
	}
}

// Equal says whether b is exactly the content of block id.
func Equal(b []byte, id uint64) bool {
	x := start(id)
	for ; len(b) >= 32; b = b[32:] {
		diff := binary.LittleEndian.Uint64(b[0:8]) ^ mix(x+golden)
		diff |= binary.LittleEndian.Uint64(b[8:16]) ^ mix(x+golden2)
		diff |= binary.LittleEndian.Uint64(b[16:24]) ^ mix(x+golden3)
		x += golden4
		diff |= binary.LittleEndian.Uint64(b[24:32]) ^ mix(x)
		if diff != 0 {
			return false
		}
	}
	for len(b) > 0 {
		x += golden
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], mix(x))
		n := min(len(b), len(word))
		if string(b[:n]) != string(word[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}
