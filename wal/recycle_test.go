package wal

import (
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/planted"
)

// leftOver makes a recycled file in which an old frame follows on the new ones
// by offset and by position: only its log number tells that it was discarded.
//
// First life: 1 2 fill wal-00000001; 3 4 5 go to wal-00000002, 3 is torn, so 4
// and 5 are discarded. Second life: it begins with 3 in a fresh file, recycles
// wal-00000002, and gets there with record 4, which ends where the old 5 lies.
func leftOver(t *testing.T) (disk *sim.Disk, dev device.Device, last Position) {
	t.Helper()
	im := &image{t: t, disk: sim.NewDisk(sim.Config{Seed: 1})}
	o := smallLog()
	o.FilesMax = 2
	dev = mustOpenDisk(t, im.disk)
	l := mustOpen(t, dev, o, 1)
	for _, n := range []int{big, big, big, 100, 100} {
		if err := l.Write(mustAppend(t, l, payloadOf(1, l.Last()+1, n), false)); err != nil {
			t.Fatal(err)
		}
	}
	old := framePlace{}
	kill(t, im.disk, dev, l)
	old = im.find(5)
	im.flip(3)

	dev = mustOpenDisk(t, im.disk)
	records, found, err := recoverAll(dev, o, 0)
	if err != nil || !slices.Equal(positions(records), span(1, 2)) || found.Tail != TailUnsynced || found.Discarded != 2 {
		t.Fatalf("replayed %v, %+v, %v", positions(records), found, err)
	}
	l = mustOpen(t, dev, o, 3)
	l.Trim(2)
	room := int(old.offset) - unitBytes - frameHeaderBytes - lengthBytes // ends at the old frame 5
	for _, n := range []int{o.RecordMaxBytes(), room} {
		if err := l.Sync(mustAppend(t, l, payloadOf(2, l.Last()+1, n), false)); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, im.disk, dev, l)
	if at := im.find(4); at.offset+at.bytes != old.offset {
		t.Fatalf("record 4 ends at %d, the old frame is at %d", at.offset+at.bytes, old.offset)
	}
	return im.disk, mustOpenDisk(t, im.disk), 4
}

// TestRecycledIsNeverReplayed also proves that the planted fault is a fault: in
// a build that has it, the test fails in the way that it should.
func TestRecycledIsNeverReplayed(t *testing.T) {
	for _, bug := range []planted.Bug{planted.None, planted.ReplayRecycled} {
		disk, dev, last := leftOver(t)
		old := 0
		if !planted.Set(bug) && bug != planted.None {
			t.Log("no planted faults in this build")
			mustClose(t, dev)
			continue
		}
		records, found, err := recoverAll(dev, smallLog(), 2)
		planted.Set(planted.None)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.payload[0] != 2 { // the life that wrote it
				old++
			}
		}
		switch {
		case bug == planted.None && (old > 0 || found.Last != last || len(records) != 2):
			t.Errorf("replayed %v, %d of them from an earlier life; files %v", positions(records), old, disk.Names())
		case bug != planted.None && old == 0:
			t.Errorf("with %v nothing old was replayed: %v", bug, positions(records))
		}
		mustClose(t, dev)
	}
}

// TestPlantedReplayNeedsNoLuck: the fault shows after any recycling, not only
// where positions happen to fit.
func TestPlantedReplayNeedsNoLuck(t *testing.T) {
	if !planted.Set(planted.None) {
		t.Skip("no planted faults in this build")
	}
	disk := sim.NewDisk(sim.Config{Seed: 1})
	dev := mustOpenDisk(t, disk)
	l := mustOpen(t, dev, smallLog(), 1)
	for range 100 {
		if err := l.Sync(mustAppend(t, l, payloadOf(1, l.Last()+1, 3000), false)); err != nil {
			t.Fatal(err)
		}
		l.Trim(l.Synced())
	}
	last := l.Last()
	mustClose(t, l)
	planted.Set(planted.ReplayRecycled)
	records, found, err := recoverAll(dev, smallLog(), last)
	planted.Set(planted.None)
	if err != nil || len(records) == 0 || found.Last == last {
		t.Errorf("%d records, %+v, %v", len(records), found, err)
	}
	mustClose(t, dev)
}
