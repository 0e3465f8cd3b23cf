package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/xattr"

	"github.com/spillway-kv/spillway/engine/table"
)

// inspected makes a real store with three blocks, one of them deleted, and
// returns its closed directory.
func inspected(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(Options{Dir: dir, CapacityBytes: 64 << 20, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := s.Namespace(Descriptor{Name: "n", BlockBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	var puts []PutItem
	for i := range 3 {
		puts = append(puts, PutItem{Key: Key{Group: 2, Bytes: []byte{'k', byte('0' + i)}}, Src: [][]byte{make([]byte, 4096)}, Depth: uint32(i)})
	}
	if err := ns.Put(puts, PutOptions{Durability: Durable}); err != nil {
		t.Fatal(err)
	}
	if _, err := ns.Delete([]Key{{Group: 2, Bytes: []byte("k1")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestInspectStoreFile(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(inspected(t), StoreFileName))
	if err != nil {
		t.Fatal(err)
	}
	sound, err := InspectStoreFile(b)
	if err != nil || len(sound.Flaws) != 0 || len(sound.Namespaces) != 1 || sound.Namespaces[0].Descriptor.Name != "n" ||
		len(sound.Namespaces[0].ID) != 64 || sound.CapacityBytes != 64<<20 || len(sound.StoreID) != 32 {
		t.Fatalf("%+v, %v", sound, err)
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		flaw   string
		damage bool
		keeps  bool // the fields are shown all the same
	}{
		{"bit flip in the body", func(b []byte) []byte { b[len(b)-30] ^= 1; return b }, "checksum", true, true},
		{"bit flip in the checksum", func(b []byte) []byte { b[8] ^= 1; return b }, "checksum", true, true},
		{"cut in the body", func(b []byte) []byte { return b[:len(b)-10] }, "announced", true, false},
		{"cut in the header", func(b []byte) []byte { return b[:9] }, "cut short", true, false},
		{"other version", func(b []byte) []byte { b[12] = 9; return sumStore(b) }, "version 9", false, true},
		{"other generation", func(b []byte) []byte { b[7] = '7'; return b }, `generation "7"`, false, true},
		{"sound sum over nonsense", func(b []byte) []byte { return sumStore(append(b[:20:20], bytes.Repeat([]byte{'x'}, len(b)-20)...)) }, "body: invalid", true, false},
		{"unknown field", func(b []byte) []byte {
			return sumStore(bytes.Replace(b, []byte(`"capacity_bytes"`), []byte(`"capacity_bytez"`), 1))
		}, "unknown field", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := InspectStoreFile(c.change(slices.Clone(b)))
			if err != nil || len(got.Flaws) == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			all, damage := "", false
			for _, f := range got.Flaws {
				all += f.Text + "\n"
				damage = damage || f.Damage
			}
			if !strings.Contains(all, c.flaw) || damage != c.damage || (got.StoreID != "") != c.keeps {
				t.Errorf("damage %t, store ID %q, flaws %s", damage, got.StoreID, all)
			}
		})
	}
	if _, err := InspectStoreFile([]byte("something else")); !errors.Is(err, ErrNotAStore) {
		t.Errorf("other bytes: %v", err)
	}
}

func sumStore(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func TestInspectSegment(t *testing.T) {
	path := filepath.Join(inspected(t), segmentName(1))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := xattr.Get(path, SegmentAttr)
	if err != nil {
		mirror = b[:segmentHeaderBytes] // a file system without attributes
	}
	head, size := b[:SegmentHeaderBytes], int64(len(b))
	bad := slices.Clone(head)
	bad[70] ^= 1
	other := slices.Clone(mirror)
	other[20] ^= 1
	binary.LittleEndian.PutUint32(other[8:], crc32.Checksum(other[12:], castagnoli))
	version := slices.Clone(head)
	version[12] = 9
	binary.LittleEndian.PutUint32(version[8:], crc32.Checksum(version[12:segmentHeaderBytes], castagnoli))
	for _, c := range []struct {
		name         string
		head, mirror []byte
		size         int64
		number       uint32
		source, flaw string
		damage       bool
	}{
		{"sound", head, mirror, size, 1, "header", "", false},
		{"no mirror", head, nil, size, 0, "header", "", false},
		{"header damaged", bad, mirror, size, 1, "mirror", "is sound and serves", true},
		{"mirror damaged", head, bad[:128], size, 1, "header", "the mirror in user.spillway.header is damaged", true},
		{"both damaged", bad, bad, size, 1, "none", "checksum", true},
		{"other mirror", head, other, size, 1, "header", "says something else", true},
		{"cut", head[:50], nil, 50, 1, "none", "header of 50 bytes", true},
		{"empty", nil, nil, 0, 1, "none", "header of 0 bytes", true},
		{"file cut", head, mirror, size - 1, 1, "header", "blocks past the end", true},
		{"other name", head, mirror, size, 2, "header", "segment 1 in file number 2", false},
		{"other version", version, nil, size, 1, "none", "segment format 9", false},
	} {
		got := InspectSegment(c.head, c.mirror, c.size, c.number)
		all, damage := "", false
		for _, f := range got.Flaws {
			all += f.Text + "\n"
			damage = damage || f.Damage
		}
		if got.Source != c.source || damage != c.damage || (all == "") != (c.flaw == "") || !strings.Contains(all, c.flaw) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if len(c.head) > 100 && (got.Number != 1 || got.SlotBytes != 4096 || got.BlockBytes != 4096 || got.Incarnation != 1) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestInspectDirectory: pages are shown, blank ones are not, and each wrong one
// tells what is wrong with it.
func TestInspectDirectory(t *testing.T) {
	slots := uint32(100)
	h := segmentHeader{number: 7, namespace: 1, incarnation: 3, slots: slots, slotBytes: 4096, blockBytes: 4096, dirBytes: uint32(directoryBytes(slots))}
	file := make([]byte, h.fileBytes())
	copy(file, h.encode())
	pages := 0
	p := newDirectoryPacker(&h, 99, 90, func(number uint32, page []byte) error {
		copy(file[h.directoryOffset()+int64(number)*directoryPageBytes:], page)
		pages++
		return nil
	})
	for slot := range uint32(90) {
		if err := p.add(directoryEntry{slot: slot, position: uint64(slot) + 1, key: []byte("key")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.flush(); err != nil {
		t.Fatal(err)
	}
	show := func(file []byte) (entries int, flaws string) {
		facts := InspectSegment(file[:SegmentHeaderBytes], nil, int64(len(file)), 7)
		for page := range InspectDirectory(bytes.NewReader(file), int64(len(file)), &facts) {
			entries += len(page.Entries)
			if page.Flaw != nil {
				flaws += page.Flaw.Text + "\n"
			}
			for _, e := range page.Entries {
				if page.Flaw == nil && (string(e.Key) != "key" || e.Place != MakePlace(7, uint32(e.Position-1)).String() || page.Position != 99) {
					t.Errorf("%+v", e)
				}
			}
		}
		return entries, flaws
	}
	if pages < 2 {
		t.Fatalf("only %d pages", pages)
	}
	if entries, flaws := show(file); entries != 90 || flaws != "" {
		t.Errorf("%d entries, %s", entries, flaws)
	}
	at := h.directoryOffset()
	for want, change := range map[string]func([]byte){
		"page 0: damaged: directory page fails its checksum": func(f []byte) { f[at+100] ^= 1 },
		"page 0: it is page 1 of segment 7, incarnation 3":   func(f []byte) { copy(f[at:at+directoryPageBytes], f[at+directoryPageBytes:]) },
	} {
		changed := slices.Clone(file)
		change(changed)
		if entries, flaws := show(changed); !strings.Contains(flaws, want) || strings.Count(flaws, "\n") != 1 || entries == 0 {
			t.Errorf("%d entries, flaws %s, want %s", entries, flaws, want)
		}
	}
	if entries, flaws := show(file[:at+directoryPageBytes+100]); entries == 0 || entries == 90 || flaws != "" {
		t.Errorf("cut: %d entries, %s", entries, flaws)
	}
	if entries, flaws := show(make([]byte, SegmentHeaderBytes)); entries != 0 || flaws != "" {
		t.Errorf("no header: %d entries, %s", entries, flaws)
	}
}

func TestInspectRecord(t *testing.T) {
	id := table.ID{Hi: 1, Lo: 2}
	put := putRecord{namespace: 1, incarnation: 2, id: id, place: MakePlace(3, 4), checksum: 5, depth: 6, importance: 7, group: 8, key: []byte("key")}
	for want, payload := range map[string][]byte{
		"put namespace 1.2, ID 01000000000000000200000000000000, seg-00000003/4, checksum 0000000000000005, depth 6, importance 7, group 8": put.append(nil),
		"free namespace 1.2, 01000000000000000200000000000000@9":                                                                            appendFree(nil, recordFree, 1, 2, []freeItem{{id, 9}}),
		"delete namespace 1.2, 01000000000000000200000000000000@9":                                                                          appendFree(nil, recordDelete, 1, 2, []freeItem{{id, 9}}),
		"quarantine seg-00000003/4 seg-00000005/6":                                                                                          appendQuarantine(nil, []Place{MakePlace(3, 4), MakePlace(5, 6)}),
		"segment gone seg-00000003":                                                                                                         appendSegmentGone(nil, 3),
		"drop namespace 1.2":                                                                                                                appendDrop(nil, 1, 2),
	} {
		f, err := InspectRecord(payload)
		if err != nil || f.String() != want {
			t.Errorf("got %q, %v; want %q", f, err, want)
		}
		if _, err := InspectRecord(payload[:len(payload)-1]); f.Kind != "put" && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s, cut: %v", f.Kind, err)
		}
	}
	for _, payload := range [][]byte{nil, {0}, {200}, {recordPut}, put.append(nil)[:40]} {
		if f, err := InspectRecord(payload); !errors.Is(err, ErrCorrupt) || f.Kind != "" {
			t.Errorf("%v: %v, %v", payload, f, err)
		}
	}
}

func TestInspectIndex(t *testing.T) {
	dir := filepath.Join(inspected(t), IndexFolder)
	before := snapshotOf(t, dir)
	keys, kinds := []string{}, map[string]int{}
	err := InspectIndex(dir, func(it IndexItem) bool {
		kinds[it.Kind]++
		if it.Put != nil {
			keys = append(keys, string(it.Put.Key))
			if it.Namespace != 1 || it.Incarnation != 1 || it.Put.Group != 2 || it.Position == 0 {
				t.Errorf("%+v", it)
			}
		}
		return true
	})
	slices.Sort(keys)
	if err != nil || strings.Join(keys, " ") != "k0 k2" || kinds["applied"] != 1 || kinds["data-synced"] != 1 || kinds["unknown"] != 0 {
		t.Errorf("%v, kinds %v, %v", keys, kinds, err)
	}
	seen := 0
	if err := InspectIndex(dir, func(IndexItem) bool { seen++; return false }); err != nil || seen != 1 {
		t.Errorf("stopped after %d: %v", seen, err)
	}
	if after := snapshotOf(t, dir); after != before {
		t.Errorf("the folder changed:\n%s\n%s", before, after)
	}
}

// snapshotOf writes names, sizes and times of a folder's files.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(e.Name() + " " + info.ModTime().String() + " " + string(rune('0'+info.Size()%10)) + "\n")
	}
	return b.String()
}

// TestInspectIndexDamage damages every file of an index in turn: the answer is
// an error, or entries, never a crash or a hang.
func TestInspectIndexDamage(t *testing.T) {
	dir := filepath.Join(inspected(t), IndexFolder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func() error{
			"gone":    func() error { return os.Remove(path) },
			"empty":   func() error { return os.WriteFile(path, nil, 0o600) },
			"cut":     func() error { return os.WriteFile(path, sound[:len(sound)/2], 0o600) },
			"changed": func() error { return os.WriteFile(path, flipped(sound), 0o600) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			err := InspectIndex(dir, func(IndexItem) bool { return true })
			if err != nil {
				failed++
			}
			if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotAStore) {
				t.Errorf("%s %s: %v", e.Name(), name, err)
			}
			if err := os.WriteFile(path, sound, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed < 4 {
		t.Errorf("only %d damages were noticed", failed)
	}
	if err := InspectIndex(dir, func(IndexItem) bool { return true }); err != nil {
		t.Errorf("mended: %v", err)
	}
	if err := InspectIndex(t.TempDir(), nil); !errors.Is(err, ErrNotAStore) {
		t.Errorf("empty folder: %v", err)
	}
}

func flipped(b []byte) []byte {
	b = slices.Clone(b)
	for i := range b {
		if i%64 == 20 {
			b[i] ^= 0x10
		}
	}
	return b
}

func FuzzInspectStoreFile(f *testing.F) {
	b, err := encodeStoreFile(&storeFile{StoreID: strings.Repeat("a0", 16), CapacityBytes: 1, SegmentBytes: 1, LogFileBytes: 1,
		Namespaces: []namespaceRecord{{Number: 1, Incarnation: 1, Descriptor: Descriptor{Name: "n", BlockBytes: 4096}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Add(b[:30], true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= storeHeaderBytes {
			sumStore(b)
			binary.LittleEndian.PutUint32(b[16:], uint32(len(b)-storeHeaderBytes))
		}
		facts, err := InspectStoreFile(b)
		_, decodeErr := decodeStoreFile(b)
		if err == nil && (decodeErr == nil) != (len(facts.Flaws) == 0) {
			t.Fatalf("a store opens with %v, flaws are %v", decodeErr, facts.Flaws)
		}
	})
}

func TestInspectDeletions(t *testing.T) {
	page := make([]byte, deletionsBytes)
	encodeDeletions(page, [16]byte{0xab}, 77)
	sound := InspectDeletions(page)
	if len(sound.Flaws) != 0 || sound.Position != 77 || !strings.HasPrefix(sound.StoreID, "ab00") || !IsDeletions(page) {
		t.Errorf("%+v", sound)
	}
	page[33] ^= 1
	if bad := InspectDeletions(page); len(bad.Flaws) != 1 || !bad.Flaws[0].Damage || bad.Version != 1 {
		t.Errorf("%+v", bad)
	}
	for _, n := range []int{0, 20, 4095} {
		if bad := InspectDeletions(page[:n]); len(bad.Flaws) != 1 || !bad.Flaws[0].Damage {
			t.Errorf("%d bytes: %+v", n, bad)
		}
	}
}

func FuzzInspectDeletions(f *testing.F) {
	page := make([]byte, deletionsBytes)
	encodeDeletions(page, [16]byte{0xab}, 77)
	f.Add(page, false)
	f.Add(page[:100], true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= 12 {
			sumStore(b)
		}
		if facts := InspectDeletions(b); len(facts.Flaws) == 0 && len(b) != deletionsBytes {
			t.Fatalf("%d bytes pass", len(b))
		}
	})
}

func FuzzInspectSegment(f *testing.F) {
	h := segmentHeader{number: 1, namespace: 1, incarnation: 1, slots: 8, slotBytes: 4096, blockBytes: 4096}
	f.Add(h.encode(), h.encode(), int64(1<<20), uint32(1), false)
	f.Add(h.encode()[:40], []byte(nil), int64(40), uint32(2), true)
	f.Fuzz(func(t *testing.T, head, mirror []byte, size int64, number uint32, fix bool) {
		if fix && len(head) >= segmentHeaderBytes {
			binary.LittleEndian.PutUint32(head[8:], crc32.Checksum(head[12:segmentHeaderBytes], castagnoli))
		}
		facts := InspectSegment(head, mirror, size, number)
		for page := range InspectDirectory(bytes.NewReader(head), size, &SegmentFacts{Slots: facts.Slots % 64, SlotBytes: facts.SlotBytes % 8192, DirBytes: 8192}) {
			_ = page.Entries
		}
		if _, err := decodeSegmentHeader(head); err != nil && len(facts.Flaws) == 0 {
			t.Fatalf("no flaw though %v", err)
		}
	})
}

func FuzzInspectRecord(f *testing.F) {
	put := putRecord{namespace: 1, incarnation: 2, place: MakePlace(3, 4), key: []byte("key")}
	f.Add(put.append(nil), appendIndexKey(nil, 1, 2, put.id, 9))
	f.Add(appendFree(nil, recordFree, 1, 2, []freeItem{{put.id, 9}}), quarantineKey(put.place))
	f.Add(appendDrop(nil, 1, 2), keyApplied)
	f.Add(appendIndexValue(nil, &put), appendIndexKey(nil, 1, 2, put.id, 9))
	f.Fuzz(func(t *testing.T, payload, key []byte) {
		if r, err := InspectRecord(payload); (err == nil) != (r.Kind != "") || err == nil && r.String() == "" {
			t.Fatalf("%+v, %v", r, err)
		}
		if it := indexItem(key, payload); (it.Cause != nil) != (it.Kind == "unknown") {
			t.Fatalf("%+v", it)
		}
	})
}
