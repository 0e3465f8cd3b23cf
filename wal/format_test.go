package wal

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestFormatIsFrozen fails loudly when the layout drifts. A change here is a new
// format version: see docs/format/wal.md.
func TestFormatIsFrozen(t *testing.T) {
	for name, pair := range map[string][2]int{
		"unit":               {unitBytes, 4096},
		"version":            {formatVersion, 1},
		"frame header":       {frameHeaderBytes, 88},
		"length prefix":      {lengthBytes, 4},
		"largest record":     {recordBytesMax, 1 << 20},
		"largest frame":      {frameBytesMax, 1<<20 + 4096},
		"frame of 1 byte":    {frameBytes(lengthBytes + 1), 4096},
		"frame of a unit":    {frameBytes(4096 - 88), 4096},
		"one byte more":      {frameBytes(4096 - 88 + 1), 8192},
		"largest, in a file": {frameBytes(payloadBytesMax), frameBytesMax},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d, frozen at %d", name, pair[0], pair[1])
		}
	}
	id := [16]byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}
	unit := bytes.Repeat([]byte{0xff}, unitBytes)
	fileHeader{1, id, 0x0102030405060708, 0x1112131415161718}.encode(unit)
	wantBytes(t, "file header", unit[:48], "5350494c4c57414c"+"01000000"+"00000000"+
		"a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"+"0807060504030201"+"1817161514131211")
	wantBytes(t, "file header's rest", unit[48:4092], hex.EncodeToString(make([]byte, 4044)))
	wantBytes(t, "file header's checksum", unit[4092:], goldenHeaderSum)

	frame := bytes.Repeat([]byte{0xff}, unitBytes)
	copy(frame[88:], "\x03\x00\x00\x00abc\x00\x00\x00\x00")
	h := frameHeader{number: 0x0102030405060708, offset: 0x2000, fileFirst: 0x10, first: 0x1112131415161718,
		count: 2, payloadBytes: 11, synced: 0x21, dataSynced: 0x22, barrier: 0x23, storeID: id}
	h.seal(frame)
	wantBytes(t, "frame", frame[4:99], "53574631"+"0807060504030201"+"0020000000000000"+"1000000000000000"+
		"1817161514131211"+"02000000"+"0b000000"+"2100000000000000"+"2200000000000000"+"2300000000000000"+
		"a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"+"03000000616263"+"00000000")
	wantBytes(t, "frame's padding", frame[99:], hex.EncodeToString(make([]byte, 4096-99)))
	wantBytes(t, "frame's checksum", frame[:4], goldenFrameSum)
}

// Computed once by another program: CRC32C, reflected, polynomial 0x1EDC6F41.
const (
	goldenHeaderSum = "1dc60702"
	goldenFrameSum  = "56a92142"
)

func wantBytes(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s is\n%x, frozen at\n%s", what, got, want)
	}
}

func TestFileNames(t *testing.T) {
	for number, name := range map[uint64]string{1: "wal-00000001", 12345678: "wal-12345678", 123456789: "wal-123456789"} {
		if got := fileName(number); got != name {
			t.Errorf("name of %d is %s", number, got)
		}
		if got, ok := fileNumber(name); !ok || got != number {
			t.Errorf("number of %s is %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "wal-", "wal-1", "wal-00000000", "wal-000000001", "wal-0000000x", "wal-00000001.tmp",
		"WAL-00000001", "wal--0000001", "wal-+0000001", "wal-99999999999999999999", "wal-100000000000000001", "seg-00000001"} {
		if number, ok := fileNumber(name); ok {
			t.Errorf("%q counts as log file %d", name, number)
		}
	}
}
