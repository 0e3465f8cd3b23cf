package engine

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/engine/table"
)

// TestDirectoryPacking: whatever the keys' lengths, every entry comes back, and
// a key is left out only where keeping it would cost a later entry its place.
func TestDirectoryPacking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		slots := uint32(1 + rng.IntN(600))
		h := segmentHeader{number: 7, incarnation: 3, slots: slots, slotBytes: 4096, dirBytes: uint32(directoryBytes(slots))}
		longest := []int{36, 80, 200, KeyMaxBytes}[rng.IntN(4)]
		var want []directoryEntry
		for slot := range slots {
			key := make([]byte, 1+rng.IntN(longest))
			for i := range key {
				key[i] = byte(rng.Uint32())
			}
			want = append(want, directoryEntry{slot: slot, id: table.ID{Hi: rng.Uint64(), Lo: rng.Uint64()}, position: rng.Uint64(),
				checksum: rng.Uint64(), depth: rng.Uint32(), importance: byte(rng.Uint32()), group: rng.Uint32(), key: key})
		}
		var got []directoryEntry
		pages := uint32(0)
		p := newDirectoryPacker(&h, 99, len(want), func(number uint32, page []byte) error {
			if number != pages || int64(number+1)*directoryPageBytes > int64(h.dirBytes) {
				t.Fatalf("round %d: page %d of %d bytes of room", round, number, h.dirBytes)
			}
			pages++
			d, err := decodeDirectoryPage(bytes.Clone(page))
			if err != nil || d.segment != 7 || d.page != number || d.incarnation != 3 || d.position != 99 {
				t.Fatalf("round %d: %v %+v", round, err, d)
			}
			got = append(got, d.entries...)
			return nil
		})
		for _, e := range want {
			if err := p.add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		named := 0
		for i := range want {
			if i >= len(got) {
				t.Fatalf("round %d: %d of %d entries came back", round, len(got), len(want))
			}
			a, b := want[i], got[i]
			if len(b.key) > 0 {
				named++
			} else {
				a.key, b.key = nil, nil
			}
			if !bytes.Equal(a.append(nil), b.append(nil)) {
				t.Fatalf("round %d: entry %d: %+v, want %+v", round, i, b, a)
			}
		}
		if longest == 36 && slots > 32 && named != len(want) {
			t.Errorf("round %d: %d of %d short keys have a place", round, named, len(want))
		}
	}
}

// FuzzDirectoryPage: whatever passes the checksum is either refused or encodes
// to the same bytes again.
func FuzzDirectoryPage(f *testing.F) {
	page := make([]byte, directoryPageBytes)
	e := directoryEntry{slot: 3, position: 8, key: []byte("key")}
	n := len(e.append(page[directoryHeaderBytes:directoryHeaderBytes:directoryPageBytes]))
	sealDirectoryPage(page, &directoryPage{segment: 1, incarnation: 1, position: 9}, 1, n)
	f.Add(page)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == directoryPageBytes {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
		}
		p, err := decodeDirectoryPage(b)
		if err != nil {
			return
		}
		again := make([]byte, directoryPageBytes)
		body := again[directoryHeaderBytes:directoryHeaderBytes:directoryPageBytes]
		for _, e := range p.entries {
			body = e.append(body)
		}
		sealDirectoryPage(again, &p, len(p.entries), len(body))
		if !bytes.Equal(again, b) {
			t.Fatal("another encoding")
		}
	})
}
