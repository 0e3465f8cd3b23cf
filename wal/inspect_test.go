package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// glance writes what Inspect finds as one word per sighting.
func glance(r io.ReaderAt, sizeBytes int64, number uint64) (words []string, damaged bool) {
	for s := range Inspect(r, sizeBytes, number) {
		word := string(s.Sight)
		switch {
		case s.Sight == SightFrame:
			word = fmt.Sprintf("frame %d..%d", s.Frame.First, s.Frame.Last)
		case s.Gap != nil:
			word = fmt.Sprintf("gap %d..%d", s.Gap.After+1, s.Gap.Before-1)
		}
		damaged = damaged || s.Damage
		words = append(words, word)
	}
	return words, damaged
}

func TestInspect(t *testing.T) {
	type damage = func(file []byte)
	flip := func(frame int) damage { return func(file []byte) { file[frame*unitBytes+90] ^= 1 } }
	unit := func(n int, b []byte) damage {
		return func(file []byte) {
			copy(file[n*unitBytes:(n+1)*unitBytes], append(slices.Clone(b), make([]byte, unitBytes)...))
		}
	}
	for _, c := range []struct {
		name   string
		synced Position // promised by the last frame
		damage damage
		number uint64
		want   string
		hurt   bool
	}{
		{"sound", 3, func([]byte) {}, 1, "header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, empty", false},
		{"number from the header", 3, func([]byte) {}, 0, "header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, empty", false},
		{"spare", 3, func([]byte) {}, 2, "header, left-over frame, left-over frame, left-over frame, left-over frame, empty", false},
		{"synced frame damaged", 3, flip(2), 1, "header, frame 1..1, gap 2..2, broken frame, frame 3..3, frame 4..4, empty", true},
		{"first frame damaged", 3, flip(1), 1, "header, gap 1..1, broken frame, frame 2..2, frame 3..3, frame 4..4, empty", true},
		{"unsynced frame damaged", 2, flip(3), 1, "header, frame 1..1, frame 2..2, tail, broken frame, frame 4..4, empty", false},
		{"torn tail", 3, flip(4), 1, "header, frame 1..1, frame 2..2, frame 3..3, tail, broken frame, empty", false},
		{"lost frame", 3, unit(2, nil), 1, "header, frame 1..1, empty, gap 2..2, frame 3..3, frame 4..4, empty", true},
		{"junk", 3, unit(5, []byte("junk")), 1, "header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, rest, empty", false},
		{"misplaced", 3, func(f []byte) { copy(f[2*unitBytes:3*unitBytes], f[4*unitBytes:]) }, 1,
			"header, frame 1..1, gap 2..2, misplaced frame, frame 3..3, frame 4..4, empty", true},
		{"foreign frame", 3, func(f []byte) { copy(f[5*unitBytes:], reseal(f[4*unitBytes:5*unitBytes], put64(72, 9))) }, 1,
			"header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, foreign frame, empty", false},
		{"header damaged", 3, func(f []byte) { f[17] ^= 1 }, 1, "no header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, empty", true},
		{"header damaged, name unknown", 3, func(f []byte) { f[17] ^= 1 }, 0, "no header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, empty", true},
		{"header lost", 3, unit(0, nil), 1, "no header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, empty", true},
		{"header damaged, other name", 3, func(f []byte) { f[17] ^= 1 }, 7,
			"no header, foreign frame, foreign frame, foreign frame, foreign frame, empty", true},
		{"other version", 3, func(f []byte) { fileHeader{2, testStore, 1, 1}.encode(f[:unitBytes]) }, 1, "header", false},
		{"never used", 0, func(f []byte) { clear(f) }, 1, "no header, empty", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := []byte(nil)
			for p := Position(1); p <= 4; p++ {
				frame := sealed(1, unitBytes*int64(p), 1, p, fmt.Sprint("record ", p))
				log = append(log, reseal(frame, put64(48, min(uint64(c.synced), uint64(p-1))))...)
			}
			file := append(fileOf(log), make([]byte, 2*unitBytes)...)
			c.damage(file)
			words, damaged := glance(bytes.NewReader(file), int64(len(file)), c.number)
			if got := strings.Join(words, ", "); got != c.want || damaged != c.hurt {
				t.Errorf("damage %t, want %t; got\n%s, want\n%s", damaged, c.hurt, got, c.want)
			}
		})
	}
}

// TestInspectRecords: what was appended is what is shown.
func TestInspectRecords(t *testing.T) {
	im := newImage(t, "ssBbs")
	next := Position(1)
	for _, name := range im.disk.Names() {
		number, ours := FileNumber(name)
		if !ours {
			continue
		}
		file, err := im.disk.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := range Inspect(bytes.NewReader(file), int64(len(file)), number) {
			if s.Damage || s.Sight == SightFrame && len(s.Payloads) != int(s.Frame.Records) {
				t.Errorf("%s: %+v", name, s)
			}
			for i, payload := range s.Payloads {
				p := s.Frame.First + Position(i)
				if p != next || !bytes.Equal(payload, payloadOf(7, p, len(payload))) {
					t.Errorf("%s: position %d, want %d, %d bytes", name, p, next, len(payload))
				}
				next++
			}
		}
	}
	if next != 6 {
		t.Errorf("records up to %d, want 5", next-1)
	}
}

// poorReader fails at some units.
type poorReader struct {
	*bytes.Reader
	bad map[int64]bool
}

func (r poorReader) ReadAt(b []byte, offset int64) (int, error) {
	for at := offset &^ (unitBytes - 1); at < offset+int64(len(b)); at += unitBytes {
		if r.bad[at/unitBytes] {
			return 0, syscall.EIO
		}
	}
	return r.Reader.ReadAt(b, offset)
}

func TestInspectUnreadable(t *testing.T) {
	log := []byte(nil)
	for p := Position(1); p <= 4; p++ {
		log = append(log, sealed(1, unitBytes*int64(p), 1, p, "record")...)
	}
	file := fileOf(log)
	for _, c := range []struct {
		bad  []int64
		want string
	}{
		{[]int64{2, 3}, "header, frame 1..1, gap 2..3, unreadable, frame 4..4, empty"},
		{[]int64{0}, "no header, frame 1..1, frame 2..2, frame 3..3, frame 4..4, empty"},
		{[]int64{4}, "header, frame 1..1, frame 2..2, frame 3..3, tail, unreadable, empty"},
	} {
		r := poorReader{bytes.NewReader(file), map[int64]bool{}}
		for _, n := range c.bad {
			r.bad[n] = true
		}
		words, damaged := glance(r, int64(len(file)), 1)
		if got := strings.Join(words, ", "); got != c.want || !damaged {
			t.Errorf("%v: damage %t; got\n%s, want\n%s", c.bad, damaged, got, c.want)
		}
		for s := range Inspect(r, int64(len(file)), 1) {
			if s.Sight == SightUnreadable && !errors.Is(s.Cause, syscall.EIO) {
				t.Errorf("cause %v", s.Cause)
			}
		}
	}
	if words, _ := glance(bytes.NewReader(file), int64(len(file))+100, 1); words[len(words)-1] != "cut" {
		t.Errorf("a cut file shows %v", words)
	}
	if words, _ := glance(bytes.NewReader(file[:100]), 100, 1); strings.Join(words, ", ") != "no header, cut" {
		t.Errorf("a short file shows %v", words)
	}
}

func FuzzInspect(f *testing.F) {
	for _, animal := range frameZoo() {
		f.Add(fileOf(animal.bytes), uint64(0), true)
		f.Add(animal.bytes, uint64(1), true)
	}
	f.Fuzz(func(t *testing.T, file []byte, number uint64, fix bool) {
		if len(file) > 1<<20 {
			return
		}
		if fix {
			fixSums(file)
		}
		at := int64(0)
		for s := range Inspect(bytes.NewReader(file), int64(len(file)), number) {
			if s.Sight == SightGap || s.Sight == SightTail {
				continue
			}
			if s.Offset != at {
				t.Fatalf("%s at %d, the one before ended at %d", s.Sight, s.Offset, at)
			}
			if at += s.Bytes; at > int64(len(file)) {
				t.Fatalf("%s ends at %d of %d", s.Sight, at, len(file))
			}
			if s.Sight == SightHeader && s.Header.Version != formatVersion {
				return
			}
		}
		if at != int64(len(file)) {
			t.Fatalf("ended at %d of %d", at, len(file))
		}
	})
}
