package engine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/table"
)

// The bytes below are frozen: stores on disk hold them. A test that fails here
// has found a change of format, which needs a new version, not a new number.

var (
	sampleID     = table.ID{Hi: 0x0807060504030201, Lo: 0x100f0e0d0c0b0a09}
	sampleNS     = [32]byte{0: 0xaa, 31: 0xbb}
	sampleStore  = [16]byte{0: 0x11, 15: 0x22}
	samplePut    = putRecord{namespace: 2, incarnation: 3, id: sampleID, place: MakePlace(4, 5), checksum: 6, depth: 7, importance: 8, group: 9, key: []byte("key")}
	sampleHeader = segmentHeader{storeID: sampleStore, nsID: sampleNS, number: 1, namespace: 2, incarnation: 3, slots: 15,
		slotBytes: 8192, blockBytes: 5000, dirBytes: 8192, createdAfter: 99}
)

func wantHex(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if want = strings.ReplaceAll(want, " ", ""); hex.EncodeToString(got) != want {
		t.Errorf("%s:\ngot  %x\nwant %s", what, got, want)
	}
}

func TestRecordBytes(t *testing.T) {
	wantHex(t, "put", samplePut.append(nil),
		"01 02000000 03000000 0102030405060708090a0b0c0d0e0f10 0500000004000000 0600000000000000 07000000 08 09000000 0300 6b6579")
	items := []freeItem{{sampleID, 1}, {table.ID{}, 1 << 40}}
	wantHex(t, "free", appendFree(nil, recordFree, 2, 3, items),
		"02 02000000 03000000 0102030405060708090a0b0c0d0e0f10 0100000000000000 00000000000000000000000000000000 0000000000010000")
	wantHex(t, "delete", appendFree(nil, recordDelete, 2, 3, items[:1]),
		"03 02000000 03000000 0102030405060708090a0b0c0d0e0f10 0100000000000000")
	wantHex(t, "quarantine", appendQuarantine(nil, []Place{MakePlace(1, 2), MakePlace(3, 4)}), "04 0200000001000000 0400000003000000")
	wantHex(t, "segment gone", appendSegmentGone(nil, 258), "05 02010000")
	wantHex(t, "drop", appendDrop(nil, 2, 3), "06 02000000 03000000")
}

func TestIndexBytes(t *testing.T) {
	wantHex(t, "key", appendIndexKey(nil, 2, 3, sampleID, 0x0102030405060708),
		"62 00000002 00000003 0102030405060708090a0b0c0d0e0f10 0102030405060708")
	wantHex(t, "value", appendIndexValue(nil, &samplePut), "0500000004000000 0600000000000000 07000000 08 09000000 6b6579")
	wantHex(t, "quarantine", quarantineKey(MakePlace(1, 2)), "71 0000000100000002")
	wantHex(t, "drop", dropPrefix(2, 3), "62 00000002 00000003")
	if len(appendIndexKey(nil, 1, 1, sampleID, 1)) != indexKeyBytes || len(appendIndexValue(nil, &samplePut)) != indexFixedValue+3 {
		t.Error("the sizes of index entries changed")
	}
}

func TestSegmentHeaderBytes(t *testing.T) {
	b := sampleHeader.encode()
	wantHex(t, "header", b,
		"53505759 53454731 5e61a494 01000000"+
			"11000000 00000000 00000000 00000022"+
			"aa000000 00000000 00000000 00000000 00000000 00000000 00000000 000000bb"+
			"01000000 02000000 03000000 0f000000 00200000 88130000 63000000 00000000"+
			"00200000"+strings.Repeat("00", 28))
	if len(b) != 128 || headerBytes != 4096 || sampleHeader.slotOffset(2) != 4096+2*8192 {
		t.Error("the layout of a segment changed")
	}
}

func TestDeletionsAndDirectoryBytes(t *testing.T) {
	b := make([]byte, deletionsBytes)
	encodeDeletions(b, sampleStore, 0x0102)
	wantHex(t, "deletions", b[:40], "53505759 44454c31 "+hex.EncodeToString(b[8:12])+" 01000000 11000000 00000000 00000000 00000022 0201000000000000")
	if !allZero(b[40:]) || len(b) != 4096 {
		t.Error("the rest of the page is not zero")
	}
	if directoryHeaderBytes != 32 || directoryEntryBytes != 47 || directoryPageBytes != 4096 {
		t.Errorf("sizes of a directory: %d, %d, %d", directoryHeaderBytes, directoryEntryBytes, directoryPageBytes)
	}
	e := directoryEntry{slot: 1, id: sampleID, position: 2, checksum: 3, depth: 4, importance: 5, group: 6, key: []byte("key")}
	wantHex(t, "directory entry", e.append(nil),
		"01000000 0102030405060708090a0b0c0d0e0f10 0200000000000000 0300000000000000 04000000 05 06000000 0300 6b6579")
}

func TestStoreFileBytes(t *testing.T) {
	f := &storeFile{StoreID: hex.EncodeToString(sampleStore[:]), CapacityBytes: 1 << 30, SegmentBytes: 1 << 24, LogFileBytes: 1 << 20,
		Namespaces: []namespaceRecord{{Number: 1, Incarnation: 2, QuotaBytes: 3, Descriptor: Descriptor{Name: "n", BlockBytes: 4096}}}}
	b, err := encodeStoreFile(f)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{
  "store_id": "11000000000000000000000000000022",
  "capacity_bytes": 1073741824,
  "segment_bytes": 16777216,
  "log_file_bytes": 1048576,
  "namespaces": [
    {
      "number": 1,
      "incarnation": 2,
      "quota_bytes": 3,
      "descriptor": {
        "name": "n",
        "block_bytes": 4096
      }
    }
  ]
}`
	if string(b[storeHeaderBytes:]) != body {
		t.Errorf("body:\n%s", b[storeHeaderBytes:])
	}
	wantHex(t, "beginning", b[:8], hex.EncodeToString([]byte("SPWYSTO1")))
	wantHex(t, "version and length", b[12:20], "01000000"+fmt.Sprintf("%02x%02x0000", len(body)&255, len(body)>>8))
}

func TestSizesOfNames(t *testing.T) {
	for number, name := range map[uint32]string{1: "seg-00000001", 99999999: "seg-99999999", 1<<32 - 1: "seg-4294967295"} {
		if got := segmentName(number); got != name {
			t.Errorf("segment %d is called %s", number, got)
		}
		if got, ok := segmentNumber(name); !ok || got != number {
			t.Errorf("%s is number %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "seg-", "seg-1", "seg-00000000", "seg-0000000x", "seg-4294967296", "seg-00000001.bak", "SEG-00000001", "seg--0000001", "wal-00000001"} {
		if n, ok := segmentNumber(name); ok {
			t.Errorf("%q is taken for segment %d", name, n)
		}
	}
	if p := MakePlace(7, 9); p.Segment() != 7 || p.Slot() != 9 || p.String() != "seg-00000007/9" {
		t.Errorf("%v", p)
	}
}

// TestBlockID: the IDs of blocks are frozen too, and no two fields run together.
func TestBlockID(t *testing.T) {
	id, _ := blockID(&sampleNS, 1, Key{Group: 2, Bytes: []byte("key")}, nil)
	raw := idBytes(id)
	wantHex(t, "ID", raw[:], "b6e63c5cf6fff54910f208d197a29902")
	if got := checksum(id, [][]byte{[]byte("block")}); got != 0x274a4e5d3b3f5795 {
		t.Errorf("checksum %#x", got)
	}
	seen := map[table.ID]string{}
	for _, group := range []uint32{0, 1, 0x31, 1 << 24} {
		for _, incarnation := range []uint64{1, 2, 1 << 32} {
			for _, k := range []string{"1", "11", "\x00", "1\x00", "\x001"} {
				id, _ := blockID(&sampleNS, incarnation, Key{Group: group, Bytes: []byte(k)}, nil)
				name := fmt.Sprint(group, incarnation, []byte(k))
				if other, ok := seen[id]; ok {
					t.Errorf("%s and %s have one ID", name, other)
				}
				seen[id] = name
			}
		}
	}
}

// TestChecksumOfPieces: the cut into pieces does not matter, the ID does.
func TestChecksumOfPieces(t *testing.T) {
	other := sampleID
	other.Lo++
	for _, n := range []int{4096, 4097, 65536, 1000001} {
		block := device.AlignedBuffer(n, 4096)
		for i := range block {
			block[i] = byte(i * i >> 3)
		}
		whole := checksum(sampleID, [][]byte{block})
		if checksum(other, [][]byte{block}) == whole {
			t.Error("another block's ID gives the same checksum")
		}
		for _, cut := range []int{1, 7, 63, 64, 240, 241, 256, 1023, 1024, 1025, 4095} {
			var pieces [][]byte
			for rest := block; len(rest) > 0; {
				k := min(cut, len(rest))
				pieces = append(pieces, rest[:k])
				rest = rest[k:]
			}
			if got := checksum(sampleID, append(pieces, nil)); got != whole {
				t.Errorf("%d bytes in pieces of %d: %#x, whole %#x", n, cut, got, whole)
			}
		}
	}
}

// TestDescriptorCanonical: one byte string for one meaning, and a frozen ID.
func TestDescriptorCanonical(t *testing.T) {
	d := Descriptor{Name: "n\u00e9\"<>&\u2028", Model: "m", Revision: "r", KVDtype: "bf16", Layout: "nhd", LayoutVersion: 1, TokensPerBlock: 16,
		BlockBytes: 1124352, Pieces: 2, TensorParallel: 4, PipelineSize: 1, Rank: "all", HashAlgorithm: "sha256", HashSeed: "0", SaltDomain: "s",
		Extra: map[string]string{"z": "1", "a": "2", "\u00e9": "3", "B": "4"}}
	got, err := d.canonical()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"block_bytes":1124352,"extra":{"B":"4","a":"2","z":"1","é":"3"},"hash_algorithm":"sha256","hash_seed":"0",` +
		`"kv_dtype":"bf16","layout":"nhd","layout_version":1,"model":"m","name":"né\"<>&` + "\u2028" + `","pieces":2,"pipeline_parallel":1,` +
		`"rank":"all","revision":"r","salt_domain":"s","tensor_parallel":4,"tokens_per_block":16}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	small, err := Descriptor{Name: "default", BlockBytes: 4096}.canonical()
	if err != nil || string(small) != `{"block_bytes":4096,"name":"default"}` {
		t.Errorf("%s, %v", small, err)
	}
	id, err := Descriptor{Name: "default", BlockBytes: 4096}.ID()
	if err != nil {
		t.Fatal(err)
	}
	wantHex(t, "ID", id[:], "f85a88f0f505d06133c6d6eda708de2a9a41a149ef012d58024df103d469063f")
}

// TestDescriptorValidate names what it refuses.
func TestDescriptorValidate(t *testing.T) {
	good := Descriptor{Name: "n", BlockBytes: 4096}
	for name, change := range map[string]func(*Descriptor){
		"no name":   func(d *Descriptor) { d.Name = "" },
		"small":     func(d *Descriptor) { d.BlockBytes = 4095 },
		"zero":      func(d *Descriptor) { d.BlockBytes = 0 },
		"large":     func(d *Descriptor) { d.BlockBytes = 64<<20 + 1 },
		"negative":  func(d *Descriptor) { d.TokensPerBlock = -1 },
		"negative2": func(d *Descriptor) { d.PipelineSize = -1 },
		"long":      func(d *Descriptor) { d.Extra = map[string]string{"x": strings.Repeat("y", 9000)} },
	} {
		d := good
		change(&d)
		if err := d.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// TestLayoutSums: the parts of a store never add up to more than its capacity.
func TestLayoutSums(t *testing.T) {
	for capacity := int64(1 << 20); capacity < 1<<46; capacity += capacity/3 + 4097 {
		for _, segment := range []int64{0, 64 << 10, 1 << 20, 1 << 30} {
			l := newLayout(capacity, segment)
			if l.check() != nil {
				if l.segmentBudgetBytes() >= l.segmentBytes {
					t.Errorf("capacity %d is refused", capacity)
				}
				continue
			}
			for _, blockBytes := range []int{4096, 4097, 65536, 1000001, 64 << 20} {
				slotBytes, slots := l.shape(blockBytes)
				if int(slotBytes) < blockBytes || slotBytes%4096 != 0 || slots < segmentSlotsMin || slots > slotsMax {
					t.Fatalf("capacity %d, blocks of %d bytes: %d slots of %d", capacity, blockBytes, slots, slotBytes)
				}
				if l.checkFits(blockBytes) != nil {
					continue
				}
				n := l.segmentBudgetBytes() / segmentCostBytes(slotBytes, slots)
				if n < 1 || l.overheadBytes()+n*segmentCostBytes(slotBytes, slots) > capacity {
					t.Fatalf("capacity %d, blocks of %d bytes: %d segments", capacity, blockBytes, n)
				}
			}
		}
	}
}

// TestDescriptorsThatLookAlike: what the canonical form cannot tell apart is
// refused: bytes that are no UTF-8, and numbers that JSON rounds.
func TestDescriptorsThatLookAlike(t *testing.T) {
	good := Descriptor{Name: "n", BlockBytes: 4096}
	for name, change := range map[string]func(d *Descriptor, bad string){
		"name":           func(d *Descriptor, bad string) { d.Name = bad },
		"model":          func(d *Descriptor, bad string) { d.Model = bad },
		"revision":       func(d *Descriptor, bad string) { d.Revision = bad },
		"kv_dtype":       func(d *Descriptor, bad string) { d.KVDtype = bad },
		"layout":         func(d *Descriptor, bad string) { d.Layout = bad },
		"rank":           func(d *Descriptor, bad string) { d.Rank = bad },
		"hash_algorithm": func(d *Descriptor, bad string) { d.HashAlgorithm = bad },
		"hash_seed":      func(d *Descriptor, bad string) { d.HashSeed = bad },
		"salt_domain":    func(d *Descriptor, bad string) { d.SaltDomain = bad },
		"extra":          func(d *Descriptor, bad string) { d.Extra = map[string]string{"a": bad} },
		"extra's key":    func(d *Descriptor, bad string) { d.Extra = map[string]string{bad: "a"} },
	} {
		d := good
		change(&d, "x\xff")
		if err := d.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s that is no UTF-8: %v", name, err)
		}
		change(&d, "x\u00ff\U0001f600\ufffd\x00")
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(d *Descriptor, n int){
		"layout_version":    func(d *Descriptor, n int) { d.LayoutVersion = n },
		"tokens_per_block":  func(d *Descriptor, n int) { d.TokensPerBlock = n },
		"pieces":            func(d *Descriptor, n int) { d.Pieces = n },
		"tensor_parallel":   func(d *Descriptor, n int) { d.TensorParallel = n },
		"pipeline_parallel": func(d *Descriptor, n int) { d.PipelineSize = n },
	} {
		ids := map[[32]byte]bool{}
		for _, n := range []int{1<<53 + 1, 1 << 53, 1<<53 - 1, 1<<31 - 1, 1} {
			d := good
			change(&d, n)
			if err := d.Validate(); err != nil {
				if !errors.Is(err, ErrConfig) || n <= 1<<31-1 {
					t.Errorf("%s %d: %v", name, n, err)
				}
				continue
			}
			id, err := d.ID()
			if err != nil || ids[id] {
				t.Errorf("%s %d: the ID is taken (%v)", name, n, err)
			}
			ids[id] = true
		}
	}
}
