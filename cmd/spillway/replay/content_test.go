package replay

import (
	"encoding/binary"
	"testing"

	"github.com/spillway-kv/spillway/fio/payload"
)

// contentSlow is the definition, word by word.
func contentSlow(nBytes int, id uint64) []byte {
	out := make([]byte, 0, nBytes+8)
	x := start(id)
	for len(out) < nBytes {
		x += golden
		out = binary.LittleEndian.AppendUint64(out, payload.Mix(x))
	}
	return out[:nBytes]
}

func TestContent(t *testing.T) {
	for _, nBytes := range []int{1, 7, 8, 31, 32, 33, 63, 4096, 4099} {
		for _, id := range []uint64{0, 1, 2, 1<<64 - 1} {
			got := make([]byte, nBytes)
			Fill(got, id)
			if string(got) != string(contentSlow(nBytes, id)) {
				t.Fatalf("%d bytes of %d differ from the definition", nBytes, id)
			}
			if !Equal(got, id) {
				t.Fatalf("%d bytes of %d: Equal says no", nBytes, id)
			}
			if nBytes >= 8 && Equal(got, id+1) {
				t.Fatalf("%d bytes of %d pass for %d", nBytes, id, id+1)
			}
		}
	}
}

// TestEqualSeesEveryByte flips each byte of a block in turn.
func TestEqualSeesEveryByte(t *testing.T) {
	b := make([]byte, 133)
	Fill(b, 42)
	for i := range b {
		b[i] ^= 0x10
		if Equal(b, 42) {
			t.Errorf("a flip in byte %d goes unseen", i)
		}
		b[i] ^= 0x10
	}
}

func BenchmarkContent(b *testing.B) {
	block, equal := make([]byte, 64<<10), true
	for name, work := range map[string]func(){
		"fill":  func() { Fill(block, 7) },
		"equal": func() { equal = Equal(block, 7) },
	} {
		Fill(block, 7)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(block)))
			for range b.N {
				work()
			}
			if !equal {
				b.Fatal("the content is not its own")
			}
		})
	}
}
