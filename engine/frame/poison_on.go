//go:build invariants

package frame

// poisonByte fills released frames, so that a use after Release shows.
const poisonByte = 0xdb

func poison(mem []byte) {
	for i := range mem {
		mem[i] = poisonByte
	}
}
