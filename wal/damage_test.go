package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// image is a log on a disk whose process was killed: every frame holds one
// record, so positions count frames too.
type image struct {
	t    testing.TB
	disk *sim.Disk
	bad  func(*device.Op) bool
}

const (
	big = 20 << 10 // three such records fill a file of 64 KiB: 24 KiB a frame, two fit
)

// newImage writes one record per letter: 's' synced, 'w' only written, 'b' a
// synced barrier, 'B' a synced record of 20 KiB, 'W' a written one of 20 KiB.
// '|' is a kill and a new start.
func newImage(t testing.TB, script string) *image {
	t.Helper()
	im := &image{t: t, disk: sim.NewDisk(sim.Config{Seed: 1})}
	dev := mustOpenDisk(t, im.disk)
	l := mustOpen(t, dev, smallLog(), 1)
	for _, c := range script {
		if c == '|' {
			kill(t, im.disk, dev, l)
			dev = mustOpenDisk(t, im.disk)
			_, found, err := recoverAll(dev, smallLog(), 0)
			if err != nil {
				t.Fatal(err)
			}
			l = mustOpen(t, dev, smallLog(), found.Last+1)
			continue
		}
		n := 100
		if c == 'B' || c == 'W' {
			n = big
		}
		p := mustAppend(t, l, payloadOf(7, l.Last()+1, n), c == 'b')
		wait := l.Sync
		if c == 'w' || c == 'W' {
			wait = l.Write
		}
		if err := wait(p); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, im.disk, dev, l)
	return im
}

type framePlace struct {
	name   string
	offset int64
	bytes  int64
}

// find locates the live frame that holds a position, in the newest file that has it.
func (im *image) find(p Position) framePlace {
	im.t.Helper()
	dev := mustOpenDisk(im.t, im.disk)
	defer mustClose(im.t, dev)
	o, _ := smallLog().withDefaults()
	s, err := newScanner(dev, o)
	if err != nil {
		im.t.Fatal(err)
	}
	numbers, err := s.numbers()
	if err != nil {
		im.t.Fatal(err)
	}
	for _, number := range slices.Backward(numbers) {
		found, err := s.scan(number, true)
		if err != nil {
			im.t.Fatal(err)
		}
		for _, it := range found.items {
			if it.seen == seenFrame && it.first <= p && p <= it.last {
				b, err := im.disk.Bytes(found.name)
				if err != nil {
					im.t.Fatal(err)
				}
				n := binary.LittleEndian.Uint32(b[it.offset+44:])
				return framePlace{found.name, it.offset, int64(frameBytes(int(n)))}
			}
		}
	}
	im.t.Fatalf("no frame holds position %d", p)
	return framePlace{}
}

// flip damages a bit in the middle of the frames of these positions.
func (im *image) flip(ps ...Position) {
	im.t.Helper()
	var places []framePlace // all of them, before the first is damaged
	for _, p := range ps {
		places = append(places, im.find(p))
	}
	for _, at := range places {
		im.flipAt(at.name, at.offset+frameHeaderBytes+20)
	}
}

func (im *image) flipAt(name string, offset int64) {
	im.t.Helper()
	if err := im.disk.FlipBit(name, offset, 3); err != nil {
		im.t.Fatal(err)
	}
}

// write puts bytes at a place, for good.
func (im *image) write(name string, offset int64, b []byte) {
	im.t.Helper()
	rewrite(im.t, im.disk, name, func(file []byte) []byte { copy(file[offset:], b); return file })
}

func (im *image) remove(name string) {
	im.t.Helper()
	dev := mustOpenDisk(im.t, im.disk)
	if err := errors.Join(dev.Remove(name), dev.SyncDir()); err != nil {
		im.t.Fatal(err)
	}
	mustClose(im.t, dev)
}

// unreadable makes one unit of a file answer EIO.
func (im *image) unreadable(name string, offset int64) {
	im.bad = func(op *device.Op) bool {
		n := int64(0)
		for _, b := range op.Bufs {
			n += int64(len(b))
		}
		return op.File.Name() == name && op.Offset <= offset && offset < op.Offset+n
	}
}

func (im *image) recover(from Position) ([]record, Recovered, error) {
	im.t.Helper()
	dev := mustOpenDisk(im.t, im.disk)
	defer mustClose(im.t, dev)
	return recoverAll(&tap{Device: dev, bad: im.bad}, smallLog(), from)
}

// span lists positions from..to.
func span(from, to Position) (ps []Position) {
	for p := from; p <= to; p++ {
		ps = append(ps, p)
	}
	return ps
}

func TestDamage(t *testing.T) {
	type gap struct {
		after, before Position
		barrierLost   bool
	}
	noGaps := []gap(nil)
	for _, c := range []struct {
		name   string
		script string
		damage func(im *image)
		from   Position
		want   []Position
		last   Position
		tail   Tail
		gaps   []gap
		lost   int // discarded frames
	}{
		{"none", "ssssww", func(*image) {}, 0, span(1, 6), 6, TailClean, noGaps, 0},
		{"none, index ahead", "ssss", func(*image) {}, 9, nil, 9, TailClean, noGaps, 0},
		{"none, three files", "BBBBBs", func(*image) {}, 2, span(3, 6), 6, TailClean, noGaps, 0},
		{"last frame", "ssss", func(im *image) { im.flip(4) }, 0, span(1, 3), 3, TailTorn, noGaps, 0},
		{"first frame of all", "ssss", func(im *image) { im.flip(1) }, 0, span(2, 4), 4, TailClean, []gap{{0, 2, false}}, 0},
		{"synced frame in the middle", "sssss", func(im *image) { im.flip(3) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"two synced frames in a row", "ssssss", func(im *image) { im.flip(3, 4) }, 0,
			[]Position{1, 2, 5, 6}, 6, TailClean, []gap{{2, 5, false}}, 0},
		{"two synced frames apart", "sssssss", func(im *image) { im.flip(2, 5) }, 0,
			[]Position{1, 3, 4, 6, 7}, 7, TailClean, []gap{{1, 3, false}, {4, 6, false}}, 0},
		{"barrier in the gap", "ssbss", func(im *image) { im.flip(3) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, true}}, 0},
		{"barrier before the gap", "sbsss", func(im *image) { im.flip(3) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"barrier behind the gap", "sssbs", func(im *image) { im.flip(3) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"barrier in the known part", "sbsss", func(im *image) { im.flip(2, 3) }, 2,
			[]Position{4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"unsynced hole", "ssswwww", func(im *image) { im.flip(5) }, 0, span(1, 4), 4, TailUnsynced, noGaps, 2},
		{"unsynced hole right behind the synced part", "sswww", func(im *image) { im.flip(3) }, 0, span(1, 2), 2, TailUnsynced, noGaps, 2},
		{"hole synced in part", "sswwww", func(im *image) { im.flip(2, 3) }, 0, []Position{1}, 2, TailUnsynced, []gap{{1, 3, false}}, 3},
		{"known frame", "sssss", func(im *image) { im.flip(3) }, 3, span(4, 5), 5, TailClean, noGaps, 0},
		{"known unsynced frame", "sswwww", func(im *image) { im.flip(4) }, 4, span(5, 6), 6, TailClean, noGaps, 0},
		{"everything is known", "sssss", func(im *image) { im.flip(2, 4) }, 5, nil, 5, TailClean, noGaps, 0},
		{"length field", "sssss", func(im *image) { at := im.find(3); im.flipAt(at.name, at.offset+46) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"magic", "ssss", func(im *image) { at := im.find(4); im.flipAt(at.name, at.offset+4) }, 0,
			span(1, 3), 3, TailClean, noGaps, 0},
		{"unit of zeros", "sssss", func(im *image) { at := im.find(3); im.write(at.name, at.offset, make([]byte, unitBytes)) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"second unit of a large frame", "sBss", func(im *image) { at := im.find(2); im.flipAt(at.name, at.offset+unitBytes+9) }, 0,
			[]Position{1, 3, 4}, 4, TailClean, []gap{{1, 3, false}}, 0},
		{"first unit of a large frame", "sBss", func(im *image) { at := im.find(2); im.write(at.name, at.offset, make([]byte, unitBytes)) }, 0,
			[]Position{1, 3, 4}, 4, TailClean, []gap{{1, 3, false}}, 0},
		{"misdirected write", "sssss", misdirect, 0, []Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"header of the only file", "ssss", func(im *image) { im.flipAt(fileName(1), 33) }, 0, span(1, 4), 4, TailClean, noGaps, 0},
		{"header of the middle file", "BBBBBs", func(im *image) { im.flipAt(fileName(2), 33) }, 0, span(1, 6), 6, TailClean, noGaps, 0},
		{"header of the newest file", "BBBBBs", func(im *image) { im.flipAt(fileName(3), 33) }, 0, span(1, 6), 6, TailClean, noGaps, 0},
		{"header of the newest file without a frame", "ss|", func(im *image) { im.flipAt(im.newest(), 33) }, 0, span(1, 2), 2, TailClean, noGaps, 0},
		{"first file gone", "BBBBBs", func(im *image) { im.remove(fileName(1)) }, 0, span(3, 6), 6, TailClean, []gap{{0, 3, false}}, 0},
		{"first file gone, known", "BBBBBs", func(im *image) { im.remove(fileName(1)) }, 2, span(3, 6), 6, TailClean, noGaps, 0},
		{"middle file gone", "BBBBBs", func(im *image) { im.remove(fileName(2)) }, 0,
			[]Position{1, 2, 5, 6}, 6, TailClean, []gap{{2, 5, false}}, 0},
		{"middle file of zeros", "BBBBBs", func(im *image) { im.write(fileName(2), 0, make([]byte, fileBytesMin)) }, 0,
			[]Position{1, 2, 5, 6}, 6, TailClean, []gap{{2, 5, false}}, 0},
		{"newest file gone", "BBBBBs", func(im *image) { im.remove(fileName(3)) }, 0, span(1, 4), 4, TailClean, noGaps, 0},
		{"end of a file, a header behind", "BBBBBs", func(im *image) { im.flip(4) }, 0,
			[]Position{1, 2, 3, 5, 6}, 6, TailClean, []gap{{3, 5, false}}, 0},
		{"end of a file, and no frame behind tells of barriers", "BBB", func(im *image) { im.flip(2, 3) }, 0,
			[]Position{1}, 2, TailTorn, []gap{{1, 3, true}}, 0},
		{"unsynced rotation is synced by it", "WWWW", func(im *image) { im.flip(2) }, 0,
			[]Position{1, 3, 4}, 4, TailClean, []gap{{1, 3, false}}, 0},
		{"truncated file", "ssss", func(im *image) { im.truncate(im.find(3).offset + 100) }, 0, span(1, 2), 2, TailClean, noGaps, 0},
		{"truncated to nothing", "ssss", func(im *image) { im.truncate(0) }, 0, nil, 0, TailClean, noGaps, 0},
		{"unreadable frame", "sssss", func(im *image) { at := im.find(3); im.unreadable(at.name, at.offset) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, false}}, 0},
		{"unreadable last frame", "ssss", func(im *image) { at := im.find(4); im.unreadable(at.name, at.offset) }, 0,
			span(1, 3), 3, TailTorn, noGaps, 0},
		{"unreadable unit inside a frame", "sBs", func(im *image) { at := im.find(2); im.unreadable(at.name, at.offset+2*unitBytes) }, 0,
			[]Position{1, 3}, 3, TailClean, []gap{{1, 3, false}}, 0},
		{"unreadable header", "ssss", func(im *image) { im.unreadable(fileName(1), 0) }, 0, span(1, 4), 4, TailClean, noGaps, 0},
		{"newest file unreadable", "BBB", func(im *image) {
			im.bad = func(op *device.Op) bool { return op.File.Name() == fileName(2) }
		}, 0, span(1, 2), 2, TailTorn, noGaps, 0},
		{"first of two unsynced frames lost, the second torn", "ssww", func(im *image) {
			at := im.find(3)
			im.flip(4)
			im.write(at.name, at.offset, make([]byte, unitBytes))
		}, 0, span(1, 2), 2, TailTorn, noGaps, 0},
		{"old file after a start", "sss|ss", func(im *image) { im.flip(2) }, 0,
			[]Position{1, 3, 4, 5}, 5, TailClean, []gap{{1, 3, false}}, 0},
		{"end of an old file after a start cannot tell of barriers", "sss|ss", func(im *image) { im.flip(3) }, 0,
			[]Position{1, 2, 4, 5}, 5, TailClean, []gap{{2, 4, true}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			im := newImage(t, c.script)
			c.damage(im)
			records, found, err := im.recover(c.from)
			if err != nil {
				t.Fatal(err)
			}
			if got := positions(records); !slices.Equal(got, c.want) {
				t.Errorf("replayed %v, want %v", got, c.want)
			}
			im.checkPayloads(records)
			if found.Last != c.last || found.Tail != c.tail || found.Discarded != c.lost {
				t.Errorf("last %d, tail %v (%v), discarded %d; want %d, %v, %d",
					found.Last, found.Tail, found.TailCause, found.Discarded, c.last, c.tail, c.lost)
			}
			if (found.TailCause != nil) != (c.tail != TailClean) {
				t.Errorf("tail %v with cause %v", found.Tail, found.TailCause)
			}
			var gaps []gap
			for _, g := range found.Gaps {
				gaps = append(gaps, gap{g.After, g.Before, g.BarrierLost})
				if !errors.Is(g.Cause, ErrCorrupt) {
					t.Errorf("cause of a gap is %v", g.Cause)
				}
			}
			if !slices.Equal(gaps, c.gaps) {
				t.Errorf("gaps %+v, want %+v", gaps, c.gaps)
			}
			im.goOn(c.last, records, c.from)
		})
	}
}

func (im *image) checkPayloads(records []record) {
	im.t.Helper()
	for _, r := range records {
		if want := payloadOf(7, r.position, len(r.payload)); string(r.payload) != string(want) {
			im.t.Errorf("wrong bytes at position %d", r.position)
		}
	}
}

// goOn opens the damaged log, as its owner does, adds a record and finds it
// behind the same survivors, with the damaged files still there and after a trim.
func (im *image) goOn(last Position, survivors []record, from Position) {
	im.t.Helper()
	for _, trim := range []bool{false, true} {
		dev := mustOpenDisk(im.t, im.disk)
		l := mustOpen(im.t, dev, smallLog(), last+1)
		if trim {
			l.Trim(last)
		}
		if p, err := l.Append(payloadOf(7, last+1, 50), false); err == nil {
			last = p
			survivors = append(survivors, record{p, nil})
		} else if trim || !errors.Is(err, ErrUntrimmed) {
			im.t.Fatal(err)
		}
		mustClose(im.t, l, dev)
		if trim {
			from, survivors = last-1, survivors[len(survivors)-1:]
		}
		records, found, err := im.recover(from)
		if err != nil {
			im.t.Fatal(err)
		}
		if got, want := positions(records), positions(survivors); !slices.Equal(got, want) || found.Last != last {
			im.t.Errorf("after going on (trim %v): replayed %v up to %d, want %v up to %d; gaps %+v", trim, got, found.Last, want, last, found.Gaps)
		}
		im.checkPayloads(records)
	}
}

// newest is the name of the newest file in use.
func (im *image) newest() string {
	im.t.Helper()
	for _, name := range slices.Backward(im.disk.Names()) {
		b, err := im.disk.Bytes(name)
		if err != nil {
			im.t.Fatal(err)
		}
		number, _ := fileNumber(name)
		if h, sound := decodeHeader(b[:unitBytes]); sound && h.number == number {
			return name
		}
	}
	im.t.Fatal("no file is in use")
	return ""
}

func (im *image) truncate(size int64) {
	im.t.Helper()
	if err := im.disk.Truncate(fileName(1), size); err != nil {
		im.t.Fatal(err)
	}
}

// misdirect puts the bytes of frame 5 also at the place of frame 3.
func misdirect(im *image) {
	from, to := im.find(5), im.find(3)
	b, err := im.disk.Bytes(from.name)
	if err != nil {
		im.t.Fatal(err)
	}
	im.write(to.name, to.offset, b[from.offset:from.offset+from.bytes])
}

// TestSpareSaysNothing: an unreadable place in a recycled file that is not in
// use is no sign of a torn tail.
func TestSpareSaysNothing(t *testing.T) {
	im := newImage(t, "")
	dev := mustOpenDisk(t, im.disk)
	l := mustOpen(t, dev, smallLog(), 1)
	for range 5 { // 1 2 | 3 4 | 5
		if err := l.Sync(mustAppend(t, l, payloadOf(7, l.Last()+1, big), false)); err != nil {
			t.Fatal(err)
		}
		l.Trim(l.Last())
	}
	mustClose(t, l, dev)
	names := im.disk.Names()
	spare := names[len(names)-1]
	if b, err := im.disk.Bytes(spare); err != nil {
		t.Fatal(err)
	} else if h, sound := decodeHeader(b[:unitBytes]); !sound || fileName(h.number) == spare {
		t.Fatalf("%s is no recycled file", spare)
	}
	im.unreadable(spare, unitBytes)
	_, found, err := im.recover(4)
	if err != nil || found.Last != 5 || found.Tail != TailClean {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestNumbersUsedUp: a forged name must not push the log beyond the numbers that
// recovery knows.
func TestNumbersUsedUp(t *testing.T) {
	im := newImage(t, "s")
	dev := mustOpenDisk(t, im.disk)
	defer mustClose(t, dev)
	if err := dev.WriteFile("wal-100000000000000000", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dev, smallLog(), 2); !errors.Is(err, ErrConfig) {
		t.Errorf("open: %v, want ErrConfig", err)
	}
}

func TestCorruptErrorTells(t *testing.T) {
	im := newImage(t, "sssss")
	at := im.find(3)
	im.unreadable(at.name, at.offset)
	_, found, err := im.recover(0)
	if err != nil || len(found.Gaps) != 1 {
		t.Fatalf("%v, gaps %+v", err, found.Gaps)
	}
	damaged, ok := errors.AsType[*CorruptError](found.Gaps[0].Cause)
	if !ok || damaged.File != at.name || damaged.Offset != at.offset || !errors.Is(damaged, syscall.EIO) {
		t.Errorf("cause is %v, want EIO at %s, %d", found.Gaps[0].Cause, at.name, at.offset)
	}
}

// TestRefusals: files of another store or version stop recovery and Open before
// anything else happens.
func TestRefusals(t *testing.T) {
	reseal := func(change func(h *fileHeader)) func(im *image) {
		return func(im *image) {
			rewrite(im.t, im.disk, fileName(1), func(b []byte) []byte {
				h, sound := decodeHeader(b[:unitBytes])
				if !sound {
					im.t.Fatal("no header")
				}
				change(&h)
				h.encode(b[:unitBytes])
				return b
			})
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*image)
		want   error
	}{
		{"foreign", reseal(func(h *fileHeader) { h.storeID[3]++ }), ErrForeign},
		{"too new", reseal(func(h *fileHeader) { h.version++ }), ErrVersion},
		{"too new and foreign", reseal(func(h *fileHeader) { h.version++; h.storeID[0]++ }), ErrVersion},
	} {
		t.Run(c.name, func(t *testing.T) {
			im := newImage(t, "ssss")
			c.damage(im)
			before := fmt.Sprint(im.disk.Names())
			records, _, err := im.recover(0)
			if !errors.Is(err, c.want) || len(records) != 0 {
				t.Errorf("recover: %v, %d records; want %v", err, len(records), c.want)
			}
			dev := mustOpenDisk(t, im.disk)
			if _, err := Open(dev, smallLog(), 5); !errors.Is(err, c.want) {
				t.Errorf("open: %v, want %v", err, c.want)
			}
			mustClose(t, dev)
			if after := fmt.Sprint(im.disk.Names()); after != before {
				t.Errorf("files changed from %s to %s", before, after)
			}
		})
	}
}

// TestApplyErrorEndsRecovery: the owner's error comes back as it is.
func TestApplyErrorEndsRecovery(t *testing.T) {
	im := newImage(t, "ssss")
	dev := mustOpenDisk(t, im.disk)
	defer mustClose(t, dev)
	boom := errors.New("boom")
	calls := 0
	_, err := Recover(dev, smallLog(), 0, func(p Position, _ []byte) error {
		if calls++; p == 2 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestFrameChangesDuringRecovery: a frame rots between the scan and the replay;
// it becomes a gap, and no record is handed out twice.
func TestFrameChangesDuringRecovery(t *testing.T) {
	im := newImage(t, "BBBBBs")
	at := im.find(3) // in the second file
	dev := mustOpenDisk(t, im.disk)
	defer mustClose(t, dev)
	var got []Position
	found, err := Recover(dev, smallLog(), 0, func(p Position, _ []byte) error {
		if got = append(got, p); p == 2 {
			im.flipAt(at.name, at.offset+at.bytes-9)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Position{1, 2, 4, 5, 6}; !slices.Equal(got, want) || found.Records != 5 || found.Last != 6 {
		t.Errorf("replayed %v (%+v), want %v", got, found, want)
	}
	if len(found.Gaps) != 1 || found.Gaps[0].After != 2 || found.Gaps[0].Before != 4 {
		t.Errorf("gaps %+v, want 2..4", found.Gaps)
	}
}
