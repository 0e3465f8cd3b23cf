package payload

import "encoding/binary"

const (
	golden  = 0x9e3779b97f4a7c15
	golden2 = 2 * golden & (1<<64 - 1) // multiples wrap at 64 bits
	golden3 = 3 * golden & (1<<64 - 1)
	golden4 = 4 * golden & (1<<64 - 1)
)

// Mix is the output function of the splitmix64 generator.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// start is where the stream of a body begins. Seed 0 is that of bodies which are
// the same in every block.
func start(seed, space, place uint64, index uint32) uint64 {
	if seed == 0 {
		return Mix(uint64(index))
	}
	return Mix(Mix(Mix(seed+golden)+space) + Mix(place+golden2) + uint64(index)*golden3)
}

// Stream writes the splitmix64 stream that begins at x: word i, little-endian, is Mix of
// x plus i+1 times the golden ratio; a shorter last word is cut.
func Stream(dst []byte, x uint64) {
	for ; len(dst) >= 32; dst = dst[32:] {
		binary.LittleEndian.PutUint64(dst[0:8], Mix(x+golden))
		binary.LittleEndian.PutUint64(dst[8:16], Mix(x+golden2))
		binary.LittleEndian.PutUint64(dst[16:24], Mix(x+golden3))
		x += golden4
		binary.LittleEndian.PutUint64(dst[24:32], Mix(x))
	}
	for len(dst) > 0 {
		x += golden
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], Mix(x))
		dst = dst[copy(dst, word[:]):]
	}
}

// StreamEqual reports whether b is the stream that begins at x.
func StreamEqual(b []byte, x uint64) bool {
	var want [256]byte
	for len(b) > 0 {
		n := min(len(b), len(want))
		Stream(want[:n], x)
		if string(b[:n]) != string(want[:n]) {
			return false
		}
		for range len(want) / 8 {
			x += golden
		}
		b = b[n:]
	}
	return true
}
