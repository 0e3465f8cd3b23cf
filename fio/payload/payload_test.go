package payload

import (
	"bytes"
	"testing"
)

var checks = []Check{CRC32C, XXHash, SHA256, Pattern}

// TestProve: what was filled is right, at its own place only.
func TestProve(t *testing.T) {
	for _, check := range checks {
		for _, nBytes := range []int{100, 4096, 5000, 8192, 64 << 10} {
			m := Maker{Check: check, Seed: 7, ZeroPercent: 30}
			b := make([]byte, nBytes)
			for _, id := range []Identity{At(0), At(1 << 30), Of(0, nBytes, 3), Of(2, nBytes, 1<<60)} {
				m.Fill(b, id)
				if f, at := Prove(b, id); f != Right {
					t.Fatalf("check %d, %d bytes, %+v: finding %d at %d", check, nBytes, id, f, at)
				}
				other := id
				other.Place += UnitBytes
				if f, _ := Prove(b, other); f != Wrong {
					t.Errorf("check %d, %d bytes, %+v: passes for another place: %d", check, nBytes, id, f)
				}
			}
		}
	}
}

// TestPieces: in a file, blocks can be proven in other lengths than written.
func TestPieces(t *testing.T) {
	m := Maker{Check: XXHash, Seed: 1}
	b := make([]byte, 64<<10)
	m.Fill(b, At(1<<20))
	if f, _ := Prove(b[8192:12288], At(1<<20+8192)); f != Right {
		t.Errorf("a piece: %d", f)
	}
}

// TestEveryBit: no flipped bit of a block passes.
func TestEveryBit(t *testing.T) {
	for _, check := range checks {
		for _, nBytes := range []int{200, 4096} {
			m, id := Maker{Check: check, Seed: 9}, Of(1, nBytes, 12)
			b := make([]byte, nBytes)
			m.Fill(b, id)
			for bit := range nBytes * 8 {
				b[bit/8] ^= 1 << (bit % 8)
				if f, _ := Prove(b, id); f != Wrong {
					t.Fatalf("check %d: bit %d flipped: finding %d", check, bit, f)
				}
				b[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

// TestForeign: what no benchmark wrote proves nothing; half a block is damage.
func TestForeign(t *testing.T) {
	m, id := Maker{Check: CRC32C}, At(8192)
	b := make([]byte, 16384)
	if f, _ := Prove(b, id); f != Foreign {
		t.Errorf("zeros: %d", f)
	}
	if f, _ := Prove(bytes.Repeat([]byte{0xa5, 1, 2}, 6000)[:16384], id); f != Foreign {
		t.Errorf("other bytes: %d", f)
	}
	m.Fill(b, id)
	clear(b[8192:])
	if f, at := Prove(b, id); f != Wrong || at != 8192 {
		t.Errorf("half a block: %d at %d", f, at)
	}
}

// TestStirred: a buffer that held a block and was stirred describes nothing, neither
// where it came from nor elsewhere. A job that reads and writes without verify writes
// such buffers.
func TestStirred(t *testing.T) {
	for _, check := range checks {
		for _, n := range []int{unitMin, 512, 4096, 4096 + unitMin, 65536} {
			for _, id := range []Identity{At(8192), Of(3, n, 7)} {
				m, b := Maker{Check: check, Seed: 9}, make([]byte, n)
				for _, read := range []Identity{id, At(1 << 20), Of(3, n, 8)} {
					m.Fill(b, read)
					before := bytes.Clone(b)
					Stir(b, 5)
					if f, at := Prove(b, id); f != Foreign {
						t.Errorf("check %d, %d bytes of %+v as %+v: %d at %d", check, n, read, id, f, at)
					}
					if bytes.Equal(b, before) {
						t.Errorf("check %d, %d bytes: nothing stirred", check, n)
					}
				}
			}
		}
	}
}

// TestSame: the asked-for share of blocks has equal bodies.
func TestSame(t *testing.T) {
	m := Maker{Check: XXHash, Seed: 5, SamePercent: 50}
	b, seen := make([]byte, 4096), 0
	for i := range uint64(1000) {
		m.Fill(b, Of(0, 4096, i))
		if bytes.Equal(b[32:40], make([]byte, 8)) {
			seen++
		}
	}
	if seen < 430 || seen > 570 {
		t.Errorf("%d of 1000", seen)
	}
}

func BenchmarkPayload(b *testing.B) {
	block := make([]byte, 64<<10)
	for _, check := range checks {
		m := Maker{Check: check, Seed: 1}
		b.Run([]string{CRC32C: "crc32c", XXHash: "xxhash", SHA256: "sha256", Pattern: "pattern"}[check], func(b *testing.B) {
			m.Fill(block, At(0))
			b.SetBytes(int64(len(block)))
			for b.Loop() {
				if f, _ := Prove(block, At(0)); f != Right {
					b.Fatal(f)
				}
			}
		})
	}
}
