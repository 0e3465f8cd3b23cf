package load

import (
	"encoding/binary"
	"fmt"
)

// headerBytes begins every block: who it is and which put it comes from.
const headerBytes = 24

// Block names one put: the key and the version of its bytes. Versions of a key
// rise from put to put and are never used twice.
type Block struct {
	Key     uint64
	Version uint64
}

func (b Block) String() string { return fmt.Sprintf("key %d version %d", b.Key, b.Version) }

// KeyBytes is the store's key of a block.
func (b Block) KeyBytes() []byte { return fmt.Appendf(nil, "load-%06d", b.Key) }

// Fill writes the content of b into dst: key, version and length, then a
// stream that follows from all three. dst has at least 24 bytes.
func Fill(dst []byte, b Block) {
	binary.LittleEndian.PutUint64(dst[0:], b.Key)
	binary.LittleEndian.PutUint64(dst[8:], b.Version)
	binary.LittleEndian.PutUint64(dst[16:], uint64(len(dst)))
	x := scramble(b.Key<<32 ^ scramble(b.Version) ^ uint64(len(dst)))
	rest := dst[headerBytes:]
	for ; len(rest) >= 8; rest = rest[8:] {
		x = step(x)
		binary.LittleEndian.PutUint64(rest, x)
	}
	for i := range rest {
		x = step(x)
		rest[i] = byte(x)
	}
}

// Read says which put a block comes from, or what is wrong with it: every byte
// is compared.
func Read(src []byte, key uint64) (Block, error) {
	b := Block{binary.LittleEndian.Uint64(src[0:]), binary.LittleEndian.Uint64(src[8:])}
	if b.Key != key {
		return b, fmt.Errorf("the block of key %d begins as %v", key, b)
	}
	want := make([]byte, len(src))
	Fill(want, b)
	for i := range want {
		if src[i] != want[i] {
			return b, fmt.Errorf("byte %d of %v is %#02x, not %#02x", i, b, src[i], want[i])
		}
	}
	return b, nil
}

// step is a 64-bit linear congruential generator (multiplier of Knuth's MMIX).
func step(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

func scramble(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
