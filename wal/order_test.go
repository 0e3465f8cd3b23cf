package wal

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// The order of writes that docs/format/wal.md promises, step by step.

func wantTrail(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: the medium saw\n%q, want\n%q", what, got, want)
	}
}

func TestOrderOfWrites(t *testing.T) {
	disk := sim.NewDisk(sim.Config{Seed: 1})
	dev := &tap{Device: mustOpenDisk(t, disk)}
	l := mustOpen(t, dev, smallLog(), 1)
	wantTrail(t, "first start", dev.takeTrail(),
		"create wal-00000001", "create wal-00000002", "create wal-00000003", "sync directory",
		"write wal-00000001 0", "sync wal-00000001")

	write := func() {
		t.Helper()
		if err := l.Write(mustAppend(t, l, make([]byte, big), false)); err != nil {
			t.Fatal(err)
		}
	}
	write()
	write()
	dev.takeTrail()
	write()
	wantTrail(t, "next file", dev.takeTrail(),
		"sync wal-00000001", "write wal-00000002 0", "sync wal-00000002", "write wal-00000002 4096")

	l.Trim(2)
	write()
	wantTrail(t, "recycling", dev.takeTrail(),
		"rename wal-00000001 wal-00000004", "sync directory", "write wal-00000002 28672")
	mustClose(t, l)
	dev.takeTrail()

	l = mustOpen(t, dev, smallLog(), 5)
	wantTrail(t, "second start", dev.takeTrail(), "sync wal-00000002",
		"rename wal-00000003 wal-00000005", "rename wal-00000004 wal-00000006", "sync directory",
		"write wal-00000005 0", "sync wal-00000005")
	mustClose(t, l)
	dev.takeTrail()

	// wal-00000005 holds no record, but its header proves that 4 was synced: it
	// goes only when the new header does the same.
	l = mustOpen(t, dev, smallLog(), 5)
	mustClose(t, l)
	wantTrail(t, "third start", dev.takeTrail(), "sync wal-00000002",
		"rename wal-00000006 wal-00000007", "sync directory",
		"write wal-00000007 0", "sync wal-00000007",
		"rename wal-00000005 wal-00000008", "sync directory")
	mustClose(t, dev.Device)
}

// TestProofOutlivesTheStart: the only proof of a lost synced record is the header
// of an empty file; a start that is cut short anywhere must not lose it.
func TestProofOutlivesTheStart(t *testing.T) {
	for k := 1; ; k++ {
		im := newImage(t, "sss|") // 1 2 3, and an empty file from 4 on
		im.flip(3)
		dev := &tap{Device: mustOpenDisk(t, im.disk), strikeAt: k, strike: im.disk.PowerCut}
		l, err := Open(dev, smallLog(), 4)
		if err == nil {
			_ = l.Close() // the cut may come in the writer's first step
		}
		calls := dev.calls
		_ = dev.Device.Close()
		_, found, err := im.recover(0)
		if err != nil {
			t.Fatal(err)
		}
		if found.Last != 3 || len(found.Gaps) != 1 || found.Gaps[0].After != 2 || found.Gaps[0].Before != 4 {
			t.Errorf("cut at call %d: %+v, want a gap 2..4", k, found)
		}
		if calls < k {
			t.Logf("%d calls", calls)
			return
		}
	}
}

// TestUnreadableHeaderIsKept: a file of which Open cannot say what it holds stays
// until Trim covers everything before the new file.
func TestUnreadableHeaderIsKept(t *testing.T) {
	im := newImage(t, "BBBBBs")
	inner := mustOpenDisk(t, im.disk)
	dev := &tap{Device: inner, bad: func(op *device.Op) bool { return op.File.Name() == fileName(2) }}
	l := mustOpen(t, dev, smallLog(), 7)
	mustClose(t, l)
	records, _, err := recoverAll(inner, smallLog(), 0)
	if got := positions(records); err != nil || !slices.Equal(got, span(1, 6)) {
		t.Errorf("replayed %v, %v", got, err)
	}
	l = mustOpen(t, dev, smallLog(), 7)
	l.Trim(6)
	mustClose(t, l)
	if n := len(im.disk.Names()); n != 3 {
		t.Errorf("%d files after the trim", n)
	}
	mustClose(t, inner)
}

// TestSyncIsNotDelayedByNewcomers: who asks for a later record while a frame is
// being written does not push back the sync that is due after it.
func TestSyncIsNotDelayedByNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := &tap{Device: mustOpenDisk(t, slowDisk())}
		l := mustOpen(t, dev, smallLog(), 1)
		dev.takeTrail()
		var group sync.WaitGroup
		for range 2 {
			p := mustAppend(t, l, []byte("x"), false)
			group.Go(func() {
				if err := l.Sync(p); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // the first one's frame is being written now
		}
		group.Wait()
		wantTrail(t, "two callers", dev.takeTrail(), "write wal-00000001 4096", "sync wal-00000001",
			"write wal-00000001 8192", "sync wal-00000001")
		mustClose(t, l, dev.Device)
	})
}

// TestRefusesUntilTrimmed: a start that finds every file in use takes one more,
// and no record until Trim has given one back: so another crash finds it empty.
func TestRefusesUntilTrimmed(t *testing.T) {
	im := newImage(t, "BBBBBs")
	dev := mustOpenDisk(t, im.disk)
	l := mustOpen(t, dev, smallLog(), 7)
	if n := len(im.disk.Names()); n != 4 {
		t.Errorf("%d files, want one more than FilesMax", n)
	}
	if _, err := l.Append([]byte("x"), false); !errors.Is(err, ErrUntrimmed) {
		t.Errorf("append: %v, want ErrUntrimmed", err)
	}
	l.Trim(2)
	p := mustAppend(t, l, []byte("x"), false)
	if err := l.Sync(p); err != nil || p != 7 {
		t.Errorf("position %d, %v", p, err)
	}
	if n := len(im.disk.Names()); n != 3 {
		t.Errorf("%d files after the trim", n)
	}
	mustClose(t, l, dev)
}
