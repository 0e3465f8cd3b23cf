package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"testing"
)

// wantTyped wants a decoder's refusal to be one that callers can tell.
func wantTyped(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrNotAStore) {
		t.Fatalf("refused with %v", err)
	}
}

// Each of the targets below wants: no panic, a typed refusal, and whatever is
// accepted encodes to the same bytes again. None of the decoders allocates more
// than its input: keys and items alias it.

func FuzzDecodePut(f *testing.F) {
	good := samplePut.append(nil)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[:putFixedBytes])
	f.Add(append(bytes.Clone(good[:putFixedBytes-2]), 0xff, 0xff))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodePut(b)
		if err != nil {
			wantTyped(t, err)
			return
		}
		if len(r.key) == 0 || len(r.key) > KeyMaxBytes {
			t.Fatalf("a key of %d bytes", len(r.key))
		}
		if again := r.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("got %x, from %x", again, b)
		}
	})
}

func FuzzDecodeFree(f *testing.F) {
	f.Add(appendFree(nil, recordFree, 1, 2, []freeItem{{sampleID, 3}, {sampleID, 1 << 60}}))
	f.Add(appendFree(nil, recordDelete, 1, 2, nil))
	f.Add([]byte{recordFree})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var items []freeItem
		var ns, incarnation uint32
		err := decodeFree(b, func(n, i uint32, it freeItem) {
			ns, incarnation = n, i
			items = append(items, it)
		})
		if err != nil {
			wantTyped(t, err)
			if items != nil {
				t.Fatal("items of a refused record")
			}
			return
		}
		if len(items) == 0 {
			return
		}
		if again := appendFree(nil, b[0], ns, incarnation, items); !bytes.Equal(again, b) {
			t.Fatalf("got %x, from %x", again, b)
		}
	})
}

func FuzzDecodeQuarantine(f *testing.F) {
	f.Add(appendQuarantine(nil, []Place{MakePlace(1, 2), MakePlace(1<<32-1, 1<<32-1)}))
	f.Add([]byte{recordQuarantine, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var places []Place
		if err := decodeQuarantine(b, func(p Place) { places = append(places, p) }); err != nil {
			wantTyped(t, err)
			return
		}
		if again := appendQuarantine(nil, places); !bytes.Equal(again[1:], b[1:]) {
			t.Fatalf("got %x, from %x", again, b)
		}
		for _, p := range places {
			if back, err := decodeQuarantineKey(quarantineKey(p)); err != nil || back != p {
				t.Fatalf("%v became %v, %v", p, back, err)
			}
		}
	})
}

func FuzzDecodeSmallRecords(f *testing.F) {
	f.Add(appendSegmentGone(nil, 7))
	f.Add(appendDrop(nil, 7, 8))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := decodeSegmentGone(b); err != nil {
			wantTyped(t, err)
		} else if again := appendSegmentGone(nil, n); !bytes.Equal(again[1:], b[1:]) {
			t.Fatalf("got %x, from %x", again, b)
		}
		if ns, incarnation, err := decodeDrop(b); err != nil {
			wantTyped(t, err)
		} else if again := appendDrop(nil, ns, incarnation); !bytes.Equal(again[1:], b[1:]) {
			t.Fatalf("got %x, from %x", again, b)
		}
		if _, err := decodeQuarantineKey(b); err != nil {
			wantTyped(t, err)
		}
	})
}

func FuzzDecodeIndexEntry(f *testing.F) {
	f.Add(appendIndexKey(nil, 1, 2, sampleID, 3), appendIndexValue(nil, &samplePut))
	f.Add([]byte("b"), []byte{})
	f.Add(make([]byte, indexKeyBytes), make([]byte, indexFixedValue+KeyMaxBytes+1))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := decodeIndexEntry(key, value)
		if err != nil {
			wantTyped(t, err)
			return
		}
		r := putRecord{place: e.place, checksum: e.checksum, depth: e.depth, importance: e.importance, group: e.group, key: e.key}
		if !bytes.Equal(appendIndexKey(nil, e.namespace, e.incarnation, e.id, e.position), key) || !bytes.Equal(appendIndexValue(nil, &r), value) {
			t.Fatalf("%+v from %x, %x", e, key, value)
		}
	})
}

// fixed puts the right checksum into a header, so that the fuzzer gets behind it.
func fixed(b []byte, fix bool) []byte {
	if fix && len(b) > 12 {
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	}
	return b
}

func FuzzDecodeSegmentHeader(f *testing.F) {
	f.Add(sampleHeader.encode(), false)
	f.Add(append(sampleHeader.encode(), make([]byte, 3968)...), false)
	f.Add(sampleHeader.encode()[:100], true)
	for _, change := range []func(*segmentHeader){
		func(h *segmentHeader) { h.number = 0 },
		func(h *segmentHeader) { h.slots = 0 },
		func(h *segmentHeader) { h.slots = 1<<32 - 1 },
		func(h *segmentHeader) { h.slotBytes = 4095 },
		func(h *segmentHeader) { h.blockBytes = 8193 },
		func(h *segmentHeader) { h.dirBytes = 1<<32 - 1 },
	} {
		h := sampleHeader
		change(&h)
		f.Add(h.encode(), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) > segmentHeaderBytes {
			b = b[:segmentHeaderBytes]
		}
		b = fixed(b, fix)
		h, err := decodeSegmentHeader(b)
		if err != nil {
			wantTyped(t, err)
			return
		}
		if h.slots > slotsMax || h.slots == 0 || int64(h.slotBytes) < int64(h.blockBytes) || h.slotBytes > BlockBytesMax ||
			h.fileBytes() < h.slotOffset(h.slots-1)+int64(h.slotBytes) || h.fileBytes() > 1<<46 {
			t.Fatalf("accepted %+v", h)
		}
		again := h.encode()
		for i := range again {
			if i >= 100 { // room for later fields
				break
			}
			if again[i] != b[i] && (i < 8 || i >= 12) {
				t.Fatalf("byte %d: %x, from %x", i, again, b)
			}
		}
	})
}

func FuzzDecodeStoreFile(f *testing.F) {
	sample := &storeFile{StoreID: hex.EncodeToString(sampleStore[:]), CapacityBytes: 1 << 30, SegmentBytes: 1 << 24, LogFileBytes: 1 << 20,
		Namespaces: []namespaceRecord{{Number: 1, Incarnation: 2, Descriptor: Descriptor{Name: "n", BlockBytes: 4096, Extra: map[string]string{"a": "b"}}}}}
	good, err := encodeStoreFile(sample)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add(good[:len(good)-1], true)
	f.Add(good[:storeHeaderBytes], true)
	f.Add(append([]byte("SPWYSTO2"), good[8:]...), false)
	f.Add([]byte("SPWYSTO"), false)
	f.Add(bytes.Replace(good, []byte(`"number": 1`), []byte(`"number": 9`), 1), true)
	f.Add(bytes.Replace(good, []byte(`1073741824`), []byte(`-73741824 `), 1), true)
	f.Add(bytes.Replace(good, []byte(`{`), []byte(`[`), 1), true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= storeHeaderBytes {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b[16:], uint32(len(b)-storeHeaderBytes))
			b = fixed(b, true)
		}
		s, err := decodeStoreFile(b)
		if err != nil {
			wantTyped(t, err)
			return
		}
		_ = s.storeID() // panics if it was not validated
		again, err := encodeStoreFile(s)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := decodeStoreFile(again)
		if err != nil {
			t.Fatalf("what was accepted is refused when written again: %v", err)
		}
		if third, err := encodeStoreFile(twice); err != nil || !bytes.Equal(third, again) {
			t.Fatalf("it does not settle: %v", err)
		}
	})
}

func FuzzDecodeDeletions(f *testing.F) {
	page := make([]byte, deletionsBytes)
	encodeDeletions(page, sampleStore, 77)
	f.Add(page, false)
	f.Add(page[:100], true)
	f.Add(make([]byte, deletionsBytes), true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		b = fixed(b, fix)
		position, err := decodeDeletions(b, sampleStore)
		if err != nil {
			wantTyped(t, err)
			return
		}
		again := make([]byte, deletionsBytes)
		encodeDeletions(again, sampleStore, position)
		if !bytes.Equal(again[:40], b[:40]) && !bytes.Equal(again[12:40], b[12:40]) {
			t.Fatalf("%x from %x", again[:40], b[:40])
		}
	})
}

// TestDecodersAllocateLittle: a damaged length field costs no memory.
func TestDecodersAllocateLittle(t *testing.T) {
	put := append(samplePut.append(nil)[:putFixedBytes-2], 0xff, 0xff)
	for name, decode := range map[string]func(){
		"put":     func() { _, _ = decodePut(put) },
		"free":    func() { _ = decodeFree(put, func(uint32, uint32, freeItem) {}) },
		"header":  func() { _, _ = decodeSegmentHeader(put) },
		"entry":   func() { _, _ = decodeIndexEntry(put, put) },
		"deleted": func() { _, _ = decodeDeletions(put, sampleStore) },
	} {
		if n := testing.AllocsPerRun(10, decode); n > 8 { // of an error
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
