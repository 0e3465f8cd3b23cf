package transporttest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
)

// sizes of blocks and bodies: around what transports may cut at.
var sizes = []int{0, 1, 7, 4095, 4096, 65535, 65536, 256<<10 - 1, 256 << 10, 256<<10 + 1, 1 << 20, 3<<20 + 11}

const largest = 16 << 20

// content fills b with the bytes of a block.
func content(b []byte, id uint64) {
	var key, iv [aes.BlockSize]byte
	binary.LittleEndian.PutUint64(key[:], id)
	cipherOf, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a fixed length
	}
	clear(b)
	cipher.NewCTR(cipherOf, iv[:]).XORKeyStream(b, b)
}

// same says whether pieces hold the bytes of a block.
func same(pieces [][]byte, id uint64) bool {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	want := make([]byte, n)
	content(want, id)
	for _, p := range pieces {
		if string(p) != string(want[:len(p)]) {
			return false
		}
		want = want[len(p):]
	}
	return true
}

// sumOf stands for a checksum.
func sumOf(id uint64) uint64 { return ^id * 31 }

// cut makes pieces of b, some of them empty.
func cut(rng *rand.Rand, b []byte) [][]byte {
	var pieces [][]byte
	for range rng.IntN(6) {
		n := rng.IntN(len(b) + 1)
		pieces = append(pieces, b[:n:n])
		b = b[n:]
	}
	return append(pieces, b)
}

// guarded is memory for a block with walls around it.
type guarded struct {
	all    []byte
	pieces [][]byte
}

const wallBytes = 64

func newGuarded(rng *rand.Rand, nBytes int) guarded {
	g := guarded{all: make([]byte, nBytes+2*wallBytes)}
	Spoil(g.all)
	g.pieces = cut(rng, g.all[wallBytes:wallBytes+nBytes:wallBytes+nBytes])
	return g
}

func (g *guarded) wallsStand() bool {
	return IsSpoilt(g.all[:wallBytes]) && IsSpoilt(g.all[len(g.all)-wallBytes:])
}

// watched is memory that nobody may write to any more.
type watched struct {
	mu  sync.Mutex
	all []guarded
}

// add fills memory with a pattern that must stay.
func (w *watched) add(g guarded) {
	Spoil(g.all)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, g)
}

func (w *watched) check(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.all {
		if !IsSpoilt(g.all) {
			t.Error("memory was written to after it was let go of")
			return
		}
	}
}
