package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

const millisecond = time.Millisecond

func slowDisk() *sim.Disk {
	return sim.NewDisk(sim.Config{Seed: 5, MinLatency: millisecond, MaxLatency: millisecond})
}

// TestGroupCommit: callers that come while a sync is running share the next one.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := slowDisk()
		dev := &tap{Device: mustOpenDisk(t, disk)}
		o := smallLog()
		o.FileBytes = 1 << 20
		l := mustOpen(t, dev, o, 1)
		writes, syncs := dev.counts()
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				p, err := l.Append([]byte(fmt.Sprint(i)), false)
				if err == nil {
					err = l.Sync(p)
				}
				if err != nil {
					t.Error(err)
				}
				if got := l.Synced(); got < p {
					t.Errorf("synced %d after Sync(%d)", got, p)
				}
			})
		}
		group.Wait()
		writes2, syncs2 := dev.counts()
		if writes2-writes > 2 || syncs2-syncs > 2 {
			t.Errorf("200 callers took %d writes and %d syncs, want two of each at most", writes2-writes, syncs2-syncs)
		}
		mustClose(t, l, dev.Device)
		dev2 := mustOpenDisk(t, disk)
		records, found, err := recoverAll(dev2, o, 0)
		if err != nil || len(records) != 200 || found.Records != 200 || found.Tail != TailClean {
			t.Errorf("%d records, %+v, %v", len(records), found, err)
		}
		mustClose(t, dev2)
	})
}

// TestWriteInterval: a record nobody waits for is written after WriteInterval,
// and not synced; a pile of them is written at once.
func TestWriteInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := mustOpenDisk(t, slowDisk())
		var written []Position
		o := smallLog()
		o.FileBytes = 4 << 20
		o.OnWritten = func(p Position) { written = append(written, p) }
		l := mustOpen(t, dev, o, 1)
		first := mustAppend(t, l, []byte("a"), false)
		time.Sleep(12 * millisecond)
		second := mustAppend(t, l, []byte("b"), false)
		time.Sleep(7 * millisecond)
		synctest.Wait()
		if got := l.Written(); got != 0 {
			t.Errorf("written %d after 19 ms", got)
		}
		time.Sleep(3 * millisecond) // 20 ms from the first, and the write itself
		synctest.Wait()
		if got := l.Written(); got != second {
			t.Errorf("written %d after 22 ms, want %d", got, second)
		}
		for range 3 {
			mustAppend(t, l, make([]byte, 100<<10), false)
		}
		time.Sleep(2 * millisecond)
		synctest.Wait()
		if got := l.Written(); got != l.Last() {
			t.Errorf("written %d of %d, though 300 KiB were pending", got, l.Last())
		}
		time.Sleep(time.Minute)
		if got := l.Synced(); got != first-1 {
			t.Errorf("synced %d, and nobody asked", got)
		}
		mustClose(t, l)
		if got := l.Synced(); got != l.Last() {
			t.Errorf("synced %d of %d after Close", got, l.Last())
		}
		if !slices.Equal(written, []Position{2, 5}) {
			t.Errorf("OnWritten told %v, want 2 and 5", written)
		}
		mustClose(t, dev)
	})
}

// TestFailureIsFinal: after one failed write or sync every waiter gets the
// error, and a device that works again changes nothing.
func TestFailureIsFinal(t *testing.T) {
	for name, plan := range map[string]sim.Plan{"write": {WriteEIO: 1}, "sync": {SyncEIO: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := slowDisk()
				dev := mustOpenDisk(t, disk)
				l := mustOpen(t, dev, smallLog(), 1)
				good := mustAppend(t, l, []byte("good"), false)
				if err := l.Sync(good); err != nil {
					t.Fatal(err)
				}
				disk.SetFaults(plan)
				var group sync.WaitGroup
				wantFailed := func(what string, err error) {
					if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
						t.Errorf("%s: %v, want ErrFailed with EIO", what, err)
					}
				}
				for range 5 {
					group.Go(func() {
						p, err := l.Append([]byte("bad"), false)
						if err == nil {
							err = l.Sync(p)
						}
						wantFailed("waiter", err)
					})
				}
				group.Wait()
				disk.SetFaults(sim.Plan{})
				_, err := l.Append([]byte("late"), false)
				wantFailed("append", err)
				wantFailed("sync", l.Sync(l.Last()))
				if err := l.Sync(good); err != nil {
					t.Errorf("what was synced before: %v", err)
				}
				if got := l.Synced(); got != good {
					t.Errorf("synced %d, want %d", got, good)
				}
				wantFailed("close", l.Close())
				wantFailed("second close", l.Close())
				mustClose(t, dev)
			})
		})
	}
}

// TestFailedRotation: every call of a rotation may fail; the log then fails, and
// what was synced is found.
func TestFailedRotation(t *testing.T) {
	for _, plan := range []sim.Plan{{MetaEIO: 1}, {SyncEIO: 1}, {WriteEIO: 1}} {
		disk := sim.NewDisk(sim.Config{Seed: 3})
		dev := mustOpenDisk(t, disk)
		l := mustOpen(t, dev, smallLog(), 1)
		for range 2 {
			mustAppend(t, l, make([]byte, big), false)
		}
		if err := l.Sync(2); err != nil {
			t.Fatal(err)
		}
		disk.SetFaults(plan)
		p := mustAppend(t, l, make([]byte, big), false)
		if err := l.Write(p); !errors.Is(err, ErrFailed) {
			t.Errorf("%+v: %v, want ErrFailed", plan, err)
		}
		disk.SetFaults(sim.Plan{})
		if err := l.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("%+v: close: %v", plan, err)
		}
		records, _, err := recoverAll(dev, smallLog(), 0)
		if err != nil || len(records) < 2 {
			t.Errorf("%+v: %d records, %v", plan, len(records), err)
		}
		mustClose(t, dev)
	}
}

// TestPendingIsBounded: with the device stuck, Append refuses at the bound, at
// once, and accepts again later.
func TestPendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := slowDisk()
		dev := mustOpenDisk(t, disk)
		o := smallLog()
		o.FileBytes, o.PendingMaxBytes = 1<<20, pendingBytesMin
		l := mustOpen(t, dev, o, 1)
		disk.SetFaults(sim.Plan{StuckOnce: 1})
		payload, accepted := make([]byte, 1000), 0
		for {
			_, err := l.Append(payload, false)
			if errors.Is(err, ErrFull) && !errors.Is(err, ErrUntrimmed) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			accepted++
		}
		if want := pendingBytesMin / (len(payload) + lengthBytes); accepted != want {
			t.Errorf("%d records accepted, want %d", accepted, want)
		}
		disk.SetFaults(sim.Plan{})
		if err := l.Write(l.Last()); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, payload, false)
		mustClose(t, l, dev)
	})
}

// TestFullUntilTrimmed: with all files in use Append refuses; everything accepted
// before can still be synced; Trim makes room; the disk never holds more.
func TestFullUntilTrimmed(t *testing.T) {
	disk := sim.NewDisk(sim.Config{Seed: 5})
	dev := mustOpenDisk(t, disk)
	pressure := 0
	o := smallLog()
	o.OnPressure = func() { pressure++ }
	l := mustOpen(t, dev, o, 1)
	bound := o.FileBytes * int64(o.FilesMax)
	for lap := range 20 {
		for {
			_, err := l.Append(payloadOf(1, l.Last()+1, 3000), false)
			if errors.Is(err, ErrUntrimmed) && errors.Is(err, ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Sync(l.Last()); err != nil {
			t.Fatal(err)
		}
		if got := l.DiskBytes(); got != bound {
			t.Errorf("lap %d: DiskBytes %d, want %d", lap, got, bound)
		}
		if got := logBytes(t, disk); got != bound {
			t.Errorf("lap %d: %d bytes on disk, want %d", lap, got, bound)
		}
		if pressure != 1 {
			t.Errorf("lap %d: OnPressure was called %d times", lap, pressure)
		}
		pressure = 0
		l.Trim(l.Last())
		p := mustAppend(t, l, payloadOf(1, l.Last()+1, 3000), false) // room at once
		if err := l.Sync(p); err != nil {
			t.Fatal(err)
		}
	}
	last := l.Last()
	mustClose(t, l)
	records, found, err := recoverAll(dev, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found.Last != last || len(records) == 0 || records[len(records)-1].position != last {
		t.Errorf("recovered up to %d, want %d", found.Last, last)
	}
	for _, r := range records {
		if !bytes.Equal(r.payload, payloadOf(1, r.position, 3000)) {
			t.Fatalf("wrong bytes at position %d", r.position)
		}
	}
	mustClose(t, dev)
}

// TestTrimKeepsWhatIsNeeded: a file goes only when all of its records are covered.
func TestTrimKeepsWhatIsNeeded(t *testing.T) {
	im := newImage(t, "BBBBBs") // 1 2 | 3 4 | 5 6
	for p, want := range map[Position]Position{0: 1, 1: 1, 2: 3, 3: 3, 4: 5, 5: 5, 6: 5} {
		dev := mustOpenDisk(t, im.disk.Clone())
		l := mustOpen(t, dev, smallLog(), 7)
		l.Trim(p)
		mustClose(t, l)
		records, _, err := recoverAll(dev, smallLog(), want-1)
		if err != nil {
			t.Fatal(err)
		}
		if got := positions(records); !slices.Equal(got, span(want, 6)) && p != 6 {
			t.Errorf("trim %d left %v, want from %d", p, got, want)
		}
		if p == 6 && len(records) != 0 {
			t.Errorf("trim of everything before the new file left %v", positions(records))
		}
		mustClose(t, dev)
	}
}

func TestAppendLimits(t *testing.T) {
	dev := mustOpenDisk(t, sim.NewDisk(sim.Config{Seed: 5}))
	o := Options{StoreID: testStore, FileBytes: 4 << 20}
	l := mustOpen(t, dev, o, 1)
	sizes := []int{0, 1, o.RecordMaxBytes(), 0, o.RecordMaxBytes() - 1, 4092 - frameHeaderBytes, 4093 - frameHeaderBytes}
	for _, n := range sizes {
		mustAppend(t, l, payloadOf(2, 0, max(n, 16))[:n], false)
	}
	if _, err := l.Append(make([]byte, o.RecordMaxBytes()+1), false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large a record: %v", err)
	}
	if o.RecordMaxBytes() != recordBytesMax || smallLog().RecordMaxBytes() != fileBytesMin-unitBytes-frameHeaderBytes-lengthBytes {
		t.Errorf("RecordMaxBytes %d, %d", o.RecordMaxBytes(), smallLog().RecordMaxBytes())
	}
	mustClose(t, l)
	if _, err := l.Append(nil, false); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if err := l.Sync(l.Last()); err != nil {
		t.Errorf("sync of what Close synced: %v", err)
	}
	records, _, err := recoverAll(dev, o, 0)
	if err != nil || len(records) != len(sizes) {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i, n := range sizes {
		if len(records[i].payload) != n || !bytes.Equal(records[i].payload, payloadOf(2, 0, max(n, 16))[:n]) {
			t.Errorf("record %d came back wrong", i)
		}
	}
	mustClose(t, dev)
}

func TestWaitingForTheFuturePanics(t *testing.T) {
	dev := mustOpenDisk(t, sim.NewDisk(sim.Config{Seed: 5}))
	l := mustOpen(t, dev, smallLog(), 1)
	for name, f := range map[string]func(Position) error{"Write": l.Write, "Sync": l.Sync} {
		if !panics(func() { _ = f(1) }) {
			t.Errorf("%s of a position that was never appended did not panic", name)
		}
	}
	mustClose(t, l, dev)
}

func TestOptions(t *testing.T) {
	dev := mustOpenDisk(t, sim.NewDisk(sim.Config{Seed: 5}))
	defer mustClose(t, dev)
	for _, o := range []Options{
		{FileBytes: 1 << 10}, {FileBytes: fileBytesMin + 512}, {FileBytes: 2 << 30}, {FileBytes: -1},
		{FilesMax: 1}, {FilesMax: -1}, {FilesMax: filesMaxMax + 1}, {PendingMaxBytes: 100}, {WriteInterval: -1},
	} {
		if _, err := Open(dev, o, 1); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", o, err)
		}
	}
	odd := mustOpenDisk(t, sim.NewDisk(sim.Config{OffsetAlignBytes: 8192}))
	defer mustClose(t, odd)
	if _, err := Open(odd, smallLog(), 1); !errors.Is(err, ErrConfig) {
		t.Errorf("alignment of 8192: %v, want ErrConfig", err)
	}
}

// TestLittleSpace: a first start needs room for two files and makes do with
// them; with less it says so, and nothing is in the way of a later start.
func TestLittleSpace(t *testing.T) {
	for _, files := range []int{0, 1, 2, 3} {
		disk := sim.NewDisk(sim.Config{Seed: 1, CapacityBytes: int64(files)*fileBytesMin + 100})
		dev := mustOpenDisk(t, disk)
		l, err := Open(dev, smallLog(), 1)
		if files < 2 {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("room for %d files: %v", files, err)
			}
			mustClose(t, dev)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if _, err := l.Append(make([]byte, 3000), false); errors.Is(err, ErrUntrimmed) {
				if err := l.Sync(l.Last()); err != nil {
					t.Fatal(err)
				}
				l.Trim(l.Last())
			} else if err != nil {
				t.Fatal(err)
			}
		}
		last := l.Last()
		mustClose(t, l)
		o := smallLog()
		o.Trimmed = last
		l = mustOpen(t, dev, o, last+1) // the disk is as full as before
		mustClose(t, l, dev)
	}
}

// TestFileSizeChanges: a log goes on with files of another size.
func TestFileSizeChanges(t *testing.T) {
	im := newImage(t, "BBBs") // files of 64 KiB
	dev := mustOpenDisk(t, im.disk)
	o := smallLog()
	o.FileBytes, o.FilesMax = 128<<10, 2
	l := mustOpen(t, dev, o, 5)
	l.Trim(4)
	for range 30 {
		p, err := l.Append(payloadOf(7, l.Last()+1, big), false)
		if errors.Is(err, ErrUntrimmed) {
			l.Trim(l.Last())
			p, err = l.Append(payloadOf(7, l.Last()+1, big), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(p); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.DiskBytes(); got != 256<<10 {
		t.Errorf("DiskBytes %d", got)
	}
	last := l.Last()
	mustClose(t, l)
	if got := logBytes(t, im.disk); got != 256<<10 {
		t.Errorf("%d bytes on disk", got)
	}
	records, found, err := recoverAll(dev, o, last-1)
	if err != nil || len(records) != 1 || found.Last != last {
		t.Errorf("%v: %v, last %d, want %d", err, positions(records), found.Last, last)
	}
	im.checkPayloads(records)
	mustClose(t, dev)
}

// TestDataSynced: the number travels in the frames and never rises above Last.
func TestDataSynced(t *testing.T) {
	dev := mustOpenDisk(t, sim.NewDisk(sim.Config{Seed: 5}))
	l := mustOpen(t, dev, smallLog(), 1)
	for p := Position(1); p <= 4; p++ {
		mustAppend(t, l, []byte("x"), false)
		if err := l.Write(p); err != nil {
			t.Fatal(err)
		}
		l.SetDataSynced(p)
		l.SetDataSynced(p - 1) // it never falls
	}
	mustClose(t, l)
	if _, found, err := recoverAll(dev, smallLog(), 0); err != nil || found.DataSynced != 3 {
		t.Errorf("data-synced %d, %v; want 3, which the frame of record 4 carries", found.DataSynced, err)
	}
	mustClose(t, dev)
}

// TestDataSyncedOfDiscarded: a discarded frame still tells, up to the end.
func TestDataSyncedOfDiscarded(t *testing.T) {
	im := newImage(t, "ww")
	dev := mustOpenDisk(t, im.disk)
	l := mustOpen(t, dev, smallLog(), 3)
	for p := Position(3); p <= 6; p++ {
		l.SetDataSynced(p - 1)
		if err := l.Write(mustAppend(t, l, payloadOf(7, p, 16), false)); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, im.disk, dev, l)
	im.flip(4)
	if _, found, err := im.recover(0); err != nil || found.Last != 3 || found.DataSynced != 3 {
		t.Errorf("last %d, data-synced %d, %v; want 3, 3", found.Last, found.DataSynced, err)
	}
}

// TestQueueFull: a device whose queue is full for a while is no failure.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sim.NewDisk(sim.Config{Seed: 1, QueueDepth: 1, QueueOps: 1, MinLatency: millisecond, MaxLatency: millisecond})
		dev := mustOpenDisk(t, disk)
		f, err := dev.Create("other", unitBytes)
		if err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, dev, smallLog(), 1)
		ended := make(chan error)
		disk.SetFaults(sim.Plan{StuckOnce: 1, Filter: func(name string) bool { return name == "other" }})
		go func() {
			b := device.AlignedBuffer(unitBytes, unitBytes)
			ended <- device.Do(dev, &device.Op{Kind: device.Write, File: f, Bufs: [][]byte{b}})
		}()
		synctest.Wait()
		p := mustAppend(t, l, []byte("x"), false)
		time.AfterFunc(200*millisecond, func() { disk.SetFaults(sim.Plan{}) })
		if err := l.Sync(p); err != nil {
			t.Errorf("sync behind a full queue: %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		mustClose(t, l, f, dev)
	})
}

// TestConcurrent runs everything at once, for the race detector.
func TestConcurrent(t *testing.T) {
	dev := mustOpenDisk(t, sim.NewDisk(sim.Config{Seed: 5}))
	o := smallLog()
	pressure := make(chan struct{}, 1)
	o.OnPressure = func() {
		select {
		case pressure <- struct{}{}:
		default:
		}
	}
	l := mustOpen(t, dev, o, 1)
	stop := make(chan struct{})
	var owner, callers sync.WaitGroup
	owner.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-pressure:
				l.Trim(l.Synced())
			}
		}
	})
	for i := range 8 {
		callers.Go(func() {
			for n := range 200 {
				p, err := l.Append(make([]byte, 16+97*((i+n)%9)), i == 0)
				switch {
				case errors.Is(err, ErrFull):
					_ = l.Sync(l.Last())
					l.Trim(l.Synced())
					continue
				case err != nil:
					t.Error(err)
					return
				}
				if n%3 == 0 {
					err = l.Sync(p)
				} else if n%7 == 0 {
					err = l.Write(p)
				}
				l.SetDataSynced(p)
				if synced := l.Synced(); err != nil || l.DiskBytes() == 0 || l.Written() < synced {
					t.Errorf("%v, %d bytes, synced %d", err, l.DiskBytes(), synced)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	owner.Wait()
	mustClose(t, l, dev)
}
