package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
)

// TestOneBitOff: every flip of one bit, under the checksum or in it, is told
// from every tearing that was tried.
func TestOneBitOff(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	page := make([]byte, 512)
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	fill(page)
	sum := crc32.Checksum(page, castagnoli)
	if oneBitOff(sum, sum, len(page)) {
		t.Error("nothing is off")
	}
	for bit := range 8 * len(page) {
		page[bit/8] ^= 1 << (bit % 8)
		if !oneBitOff(crc32.Checksum(page, castagnoli), sum, len(page)) {
			t.Errorf("a flip of bit %d was not recognised", bit)
		}
		page[bit/8] ^= 1 << (bit % 8)
	}
	for bit := range 32 {
		if !oneBitOff(sum, sum^1<<bit, len(page)) {
			t.Errorf("a flip of bit %d of the checksum was not recognised", bit)
		}
	}
	mistaken := 0
	for range 2000 {
		torn := bytes.Clone(page)
		fill(torn[rng.IntN(len(torn)-64):])
		if oneBitOff(crc32.Checksum(torn, castagnoli), sum, len(torn)) {
			mistaken++
		}
	}
	if mistaken > 0 {
		t.Errorf("%d of 2000 torn pages look flipped", mistaken)
	}
}

// TestReadManifest: the index library's own writer is read to its end; cut short
// it is torn, flipped it is damaged.
func TestReadManifest(t *testing.T) {
	var file bytes.Buffer
	w := record.NewWriter(&file)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{10, 0, 500, 40000, 32749, 1, 70000} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if _, err := w.WriteRecord(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw := file.Bytes()
	if at, what, torn := readManifest(raw); what != "" || torn || at != len(raw) {
		t.Fatalf("%d of %d: %q", at, len(raw), what)
	}
	for cut := len(raw) - 3000; cut < len(raw); cut++ {
		if at, what, torn := readManifest(raw[:cut]); what != "" && !torn {
			t.Errorf("cut to %d: %q at %d", cut, what, at)
		}
	}
	for range 3000 {
		i, bit := rng.IntN(len(raw)), rng.IntN(8)
		raw[i] ^= 1 << bit
		if at, what, torn := readManifest(raw); what == "" || torn {
			t.Errorf("a flip of bit %d at %d: %q at %d, torn %v", bit, i, what, at, torn)
		}
		raw[i] ^= 1 << bit
	}
}

// FuzzManifest: no bytes make the reader fail or stand still.
func FuzzManifest(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 1, 0, 1, 9})
	f.Add(make([]byte, manifestBlockBytes+3))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if at, what, _ := readManifest(raw); at > len(raw)+manifestHeaderBytes || what == "" && at < len(raw) {
			t.Errorf("stopped at %d of %d without a word", at, len(raw))
		}
	})
}

// FuzzDeletions: what passes the checksum is refused, or encodes to the same
// bytes again.
func FuzzDeletions(f *testing.F) {
	page := make([]byte, deletionsBytes)
	encodeDeletions(page, [16]byte{7}, 99)
	f.Add(page)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == deletionsBytes {
			b = bytes.Clone(b)
			clear(b[40:])
			copy(b, deletionsMagic)
			binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
		}
		position, err := decodeDeletions(b, [16]byte{7})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		again := make([]byte, deletionsBytes)
		encodeDeletions(again, [16]byte{7}, position)
		if !bytes.Equal(again, b) {
			t.Error("another encoding")
		}
	})
}
