package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/engine/device/sim"
)

// sealed is a sound frame with these records.
func sealed(number uint64, offset int64, fileFirst, first Position, records ...string) []byte {
	var payload []byte
	for _, r := range records {
		payload = binary.LittleEndian.AppendUint32(payload, uint32(len(r)))
		payload = append(payload, r...)
	}
	frame := make([]byte, frameBytes(len(payload)))
	copy(frame[frameHeaderBytes:], payload)
	h := frameHeader{number: number, offset: offset, fileFirst: fileFirst, first: first, count: uint32(len(records)),
		payloadBytes: uint32(len(payload)), synced: first - 1, storeID: testStore}
	h.seal(frame)
	return frame
}

// reseal changes a sound frame and makes its checksum right again.
func reseal(frame []byte, change func(b []byte)) []byte {
	frame = bytes.Clone(frame)
	change(frame)
	binary.LittleEndian.PutUint32(frame, checksumOf(frame[4:]))
	return frame
}

func checksumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func put32(at int, v uint32) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
}

func put64(at int, v uint64) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
}

// frameZoo are odd frames for offset 4096 of file 1; only the sound ones decode.
func frameZoo() map[string]struct {
	bytes []byte
	sound bool
} {
	good := sealed(1, unitBytes, 1, 1, "one", "", "three")
	type animal = struct {
		bytes []byte
		sound bool
	}
	return map[string]animal{
		"sound":                 {good, true},
		"sound, large":          {sealed(1, unitBytes, 1, 7, string(make([]byte, 9000))), true},
		"zeros":                 {make([]byte, unitBytes), false},
		"ones":                  {bytes.Repeat([]byte{0xff}, unitBytes), false},
		"bit flip":              {func() []byte { b := bytes.Clone(good); b[200] ^= 1; return b }(), false},
		"no records":            {reseal(good, put32(40, 0)), false},
		"too many records":      {reseal(good, put32(40, 1<<31)), false},
		"payload of nothing":    {reseal(good, put32(44, 0)), false},
		"payload too long":      {reseal(good, put32(44, 1<<32-1)), false},
		"payload past the file": {reseal(good, put32(44, payloadBytesMax)), false},
		"payload too short":     {reseal(good, put32(44, 9)), false},
		"record too long":       {reseal(good, put32(88, 1<<32-1)), false},
		"record to the end":     {reseal(good, put32(88, unitBytes)), false},
		"position 0":            {reseal(good, put64(32, 0)), false},
		"positions overflow":    {reseal(good, put64(32, 1<<64-2)), false},
		"file first 0":          {reseal(good, put64(24, 0)), false},
		"before its file":       {reseal(good, put64(24, 2)), false},
		"other offset":          {sealed(1, 2*unitBytes, 1, 1, "one"), false},
		"other log number":      {sealed(2, unitBytes, 1, 1, "one"), false},
		"other store":           {reseal(good, func(b []byte) { b[72]++ }), false},
		"synced far ahead":      {reseal(good, put64(48, 1<<64-1)), true},
	}
}

// fileOf is an image of file 1 with a header and these bytes behind it.
func fileOf(behind []byte) []byte {
	file := make([]byte, max(4, 2+len(behind)/unitBytes)*unitBytes)
	fileHeader{formatVersion, testStore, 1, 1}.encode(file[:unitBytes])
	copy(file[unitBytes:], behind)
	return file
}

func TestFrameZoo(t *testing.T) {
	for name, animal := range frameZoo() {
		t.Run(name, func(t *testing.T) {
			records := recoverImage(t, fileOf(animal.bytes), nil)
			if (len(records) > 0) != animal.sound {
				t.Errorf("%d records", len(records))
			}
		})
	}
}

// recoverImage recovers from files with these contents and checks what holds
// for any bytes at all; it returns what was replayed.
func recoverImage(t *testing.T, first, second []byte) []record {
	t.Helper()
	disk := sim.NewDisk(sim.Config{Seed: 1})
	dev := mustOpenDisk(t, disk)
	defer mustClose(t, dev)
	for i, content := range [][]byte{first, second} {
		if content != nil {
			if err := dev.WriteFile(fileName(uint64(i+1)), content); err != nil {
				t.Fatal(err)
			}
		}
	}
	records, found, err := recoverAll(dev, smallLog(), 0)
	if err != nil {
		if !errors.Is(err, ErrForeign) && !errors.Is(err, ErrVersion) || len(records) > 0 {
			t.Fatalf("%v after %d records", err, len(records))
		}
		return nil
	}
	at, gaps := Position(0), found.Gaps
	for _, r := range records {
		if len(gaps) > 0 && gaps[0].After == at {
			at, gaps = gaps[0].Before-1, gaps[1:]
		}
		if r.position != at+1 {
			t.Fatalf("position %d behind %d", r.position, at)
		}
		at = r.position
	}
	if len(gaps) == 0 && found.Last != at || found.Last < at || found.Records != uint64(len(records)) {
		t.Fatalf("%d records up to %d: %+v", len(records), at, found)
	}
	if found.Last < 1<<60 { // the log goes on
		l, err := Open(dev, smallLog(), found.Last+1)
		if errors.Is(err, ErrConfig) {
			return records // a forged header with one of the last log numbers
		} else if err != nil {
			t.Fatal(err)
		}
		l.Trim(found.Last)
		mustClose(t, l)
	}
	return records
}

func FuzzDecodeFrame(f *testing.F) {
	for _, animal := range frameZoo() {
		f.Add(animal.bytes, false)
		f.Add(animal.bytes, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		frame := make([]byte, max(1, min(len(b)/unitBytes+1, frameBytesMax/unitBytes))*unitBytes)
		copy(frame, b)
		var h frameHeader
		h.parse(frame)
		length := h.length(int64(len(frame)))
		if length == 0 {
			return
		}
		frame = frame[:length]
		if fix {
			binary.LittleEndian.PutUint32(frame, checksumOf(frame[4:]))
		}
		if h.check(frame) != nil {
			return
		}
		// What decodes has its records, and encodes to the same fields.
		rest, count := frame[frameHeaderBytes:frameHeaderBytes+int(h.payloadBytes)], uint32(0)
		for len(rest) > 0 {
			_, rest = cutRecord(rest)
			count++
		}
		if count != h.count || h.last() < h.first {
			t.Fatalf("%d records, the header says %+v", count, h)
		}
		again := bytes.Clone(frame)
		h.seal(again)
		var h2 frameHeader
		if h2.parse(again); h2 != h || h2.check(again) != nil {
			t.Fatalf("%+v came back as %+v", h, h2)
		}
	})
}

func FuzzRecover(f *testing.F) {
	for _, animal := range frameZoo() {
		f.Add(fileOf(animal.bytes), []byte(nil), false)
		f.Add(animal.bytes, fileOf(animal.bytes), true)
	}
	log := []byte(nil)
	for p := Position(1); p <= 6; p++ {
		log = append(log, sealed(1, unitBytes*int64(p), 1, p, "record")...)
	}
	f.Add(fileOf(log), []byte(nil), false)
	for damaged := range 6 {
		b := bytes.Clone(log)
		b[damaged*unitBytes+90] ^= 1
		f.Add(fileOf(b), []byte(nil), false)
		f.Add(fileOf(b), fileOf(b), true)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, fix bool) {
		if len(first)+len(second) > 1<<20 {
			return
		}
		if fix { // let the fuzzer get past checksums
			fixSums(first)
			fixSums(second)
		}
		recoverImage(t, first, second)
	})
}

// fixSums makes the checksum of every unit that looks like a header or a frame right.
func fixSums(b []byte) {
	for at := 0; at+unitBytes <= len(b); at += unitBytes {
		unit := b[at : at+unitBytes]
		var h frameHeader
		if string(unit[:8]) == headerMagic {
			binary.LittleEndian.PutUint32(unit[headerSumAt:], checksumOf(unit[:headerSumAt]))
		} else if h.parse(unit) {
			if n := h.length(int64(len(b) - at)); n > 0 {
				binary.LittleEndian.PutUint32(b[at:], checksumOf(b[at+4:at+n]))
			}
		}
	}
}

// TestRandomDamage is the fuzz target's little sister for every test run: real
// logs with a few bytes or units changed.
func TestRandomDamage(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		script := make([]byte, 1+rng.IntN(6))
		for i := range script {
			script[i] = "swbBW|"[rng.IntN(6)]
		}
		im := newImage(t, string(script))
		names := im.disk.Names()
		for range 1 + rng.IntN(3) {
			name := names[rng.IntN(len(names))]
			offset := rng.Int64N(fileBytesMin)
			switch rng.IntN(4) {
			case 0:
				im.write(name, offset&^(unitBytes-1), make([]byte, unitBytes))
			case 1:
				im.write(name, offset&^511, bytes.Repeat([]byte{byte(rng.Uint32())}, 512))
			default:
				im.flipAt(name, offset%(3*unitBytes))
			}
		}
		records, found, err := im.recover(0)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		im.checkPayloads(records)
		im.goOn(found.Last, records, 0)
		if t.Failed() {
			t.Fatalf("seed %d, script %s", seed, script)
		}
	}
}
