package engine_test

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// flip damages one bit in the middle of a block on the medium.
func (r *rig) flip(p engine.Place, slotBytes int) {
	r.t.Helper()
	name, offset := at(p, slotBytes)
	must(r.t, r.disk.FlipBit(name, offset+1234, 3))
}

// TestFlippedBit: the damaged block is a miss once, is counted, and can be put
// again; its neighbours stay.
func TestFlippedBit(t *testing.T) {
	for _, blockBytes := range []int{4096, oddBytes} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", blockBytes)
			all(t, put(t, ns, engine.PutOptions{}, 0, 1, 2), engine.Stored)
			r.flip(places(t, ns, 1)[1], ns.Stat().SlotBytes)
			item := []engine.GetItem{{Key: key(1), Dst: [][]byte{device.AlignedBuffer(blockBytes, 4096)}}}
			must(t, ns.Get(item, engine.GetOptions{}))
			if item[0].Status != engine.Miss {
				t.Fatalf("a damaged block is a %v", item[0].Status)
			}
			wantErr(t, item[0].Err, engine.ErrCorrupt)
			all(t, get(t, ns, 0, 2), engine.Hit)
			if m, err := ns.Match([]engine.Key{key(0), key(1)}, engine.MatchOptions{}); err != nil || m.Prefix != 1 {
				t.Error(m, err)
			}
			all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
			all(t, get(t, ns, 0, 1, 2), engine.Hit)
			c := s.Stat().Counters
			if c.TornBlocks != 1 || c.LostBlocks != 0 || c.QuarantinedSlots != 0 || c.ReadErrors != 0 {
				t.Errorf("%+v", c)
			}
			mustClose(t, s)
			s = r.open(engine.Options{})
			all(t, get(t, namespace(t, s, "a", blockBytes), 0, 1, 2), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestSwappedSlots: two whole blocks that changed places are two misses.
func TestSwappedSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 8192)
		all(t, put(t, ns, engine.PutOptions{}, 0, 1, 2), engine.Stored)
		p := places(t, ns, 0, 1)
		mustClose(t, s)
		r.offline(func(dev device.Device) {
			var blocks [2][]byte
			var files [2]device.File
			for i := range blocks {
				name, offset := at(p[i], 8192)
				f, err := dev.Open(name)
				must(t, err)
				blocks[i], files[i] = device.AlignedBuffer(8192, 4096), f
				must(t, device.Do(dev, &device.Op{Kind: device.Read, File: f, Offset: offset, Bufs: [][]byte{blocks[i]}}))
			}
			for i := range blocks {
				_, offset := at(p[i], 8192)
				must(t, device.Do(dev, &device.Op{Kind: device.Write, File: files[i], Offset: offset, Bufs: [][]byte{blocks[1-i]}}))
				must(t, device.Do(dev, &device.Op{Kind: device.Sync, File: files[i]}))
			}
			must(t, files[0].Close())
			must(t, files[1].Close())
		})
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 8192)
		all(t, get(t, ns, 0, 1), engine.Miss)
		all(t, get(t, ns, 2), engine.Hit)
		if c := s.Stat().Counters; c.TornBlocks != 2 {
			t.Errorf("%+v", c)
		}
		mustClose(t, s)
	})
}

// TestTruncatedSegment: a block cut off by the end of its file is a miss, and
// nothing is invented in its place.
func TestTruncatedSegment(t *testing.T) {
	for _, blockBytes := range []int{8192, 8200} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{SegmentBytes: 4096 + 8*12288}))
			ns := namespace(t, s, "a", blockBytes)
			all(t, put(t, ns, engine.PutOptions{}, 0, 1, 2, 3), engine.Stored) // 3 lies first
			slotBytes := ns.Stat().SlotBytes
			p := places(t, ns, 0, 1, 2, 3)
			if p[1].Slot() != 2 {
				t.Fatalf("block 1 lies at %v", p[1])
			}
			mustClose(t, s)
			name, offset := at(p[1], slotBytes)
			must(t, r.disk.Truncate(name, offset+4096))
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", blockBytes)
			all(t, get(t, ns, 0, 1), engine.Miss)
			all(t, get(t, ns, 2, 3), engine.Hit)
			all(t, put(t, ns, engine.PutOptions{}, 10, 11, 12, 13, 14, 15, 16), engine.Stored, engine.Dropped)
			all(t, get(t, ns, 2, 3), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestReadErrorCostsOneSlot: an EIO is a miss, the slot is not used again, not
// even after a restart, and everything else goes on.
func TestReadErrorCostsOneSlot(t *testing.T) {
	for _, blockBytes := range []int{4096, oddBytes} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", blockBytes)
			all(t, put(t, ns, engine.PutOptions{}, 0, 1, 2), engine.Stored)
			bad := places(t, ns, 1)[1]
			r.disk.SetFaults(sim.Plan{Filter: isSegment, ReadEIO: 1})
			all(t, get(t, ns, 1), engine.Miss)
			r.disk.SetFaults(sim.Plan{})
			all(t, get(t, ns, 1), engine.Miss)
			all(t, get(t, ns, 0, 2), engine.Hit)
			check := func(s *engine.Store) {
				t.Helper()
				if c := s.Stat().Counters; c.QuarantinedSlots != 1 {
					t.Errorf("%+v", c)
				}
			}
			check(s)
			mustClose(t, s)
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", blockBytes)
			check(s)
			n := ns.Stat().Slots
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, n)...), engine.Stored, engine.Present)
			for b, p := range places(t, ns, sequence(0, n)...) {
				if p == bad {
					t.Errorf("block %d was put into the quarantined slot %v", b, p)
				}
			}
			mustClose(t, s)
		})
	}
}

// TestTwoMismatchesQuarantine: a slot that spoils two different puts is never
// used again; one that spoils the same put twice, or once, is.
func TestTwoMismatchesQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(engine.Options{CapacityBytes: 4 << 20, SegmentBytes: 2 << 20}) // one segment
		ns := namespace(t, s, "a", 256<<10)
		slots := ns.Stat().Slots
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		bad := places(t, ns, 0)[0]
		r.flip(bad, 256<<10)
		all(t, get(t, ns, 0), engine.Miss)
		if c := s.Stat().Counters; c.QuarantinedSlots != 0 || c.TornBlocks != 1 {
			t.Fatalf("%+v", c)
		}
		for n := 1; ; n++ { // until the slot is used again
			all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
			if places(t, ns, n)[n] == bad {
				r.flip(bad, 256<<10)
				all(t, get(t, ns, n), engine.Miss)
				break
			}
			if n == 4*slots {
				t.Fatal("the slot was never used again")
			}
		}
		if c := s.Stat().Counters; c.QuarantinedSlots != 1 || c.TornBlocks != 2 {
			t.Errorf("%+v", c)
		}
		if got := ns.Stat().Slots; got != slots-1 {
			t.Errorf("%d slots, want %d", got, slots-1)
		}
		time.Sleep(2 * time.Second)
		r.kill(s)
		s = r.open(engine.Options{})
		if c := s.Stat().Counters; c.QuarantinedSlots != 1 {
			t.Errorf("after a restart: %+v", c)
		}
		mustClose(t, s)
	})
}

// spoiling changes the memory of one block at the worst moment: of a read,
// after the drive has filled it and before the store has looked; of a write,
// after the store has looked and before the drive has.
type spoiling struct {
	device.Device
	armed   atomic.Bool // for the next read
	sources atomic.Bool // for the next write
}

func (d *spoiling) Submit(ops []*device.Op) {
	for _, op := range ops {
		if op.Kind == device.Read && isSegment(op.File.Name()) && d.armed.CompareAndSwap(true, false) {
			done := op.Done
			op.Done = func(op *device.Op) {
				op.Bufs[0][100]++
				done(op)
			}
		}
		if op.Kind == device.Write && isSegment(op.File.Name()) && op.Offset > 0 && d.sources.CompareAndSwap(true, false) {
			op.Bufs[0][100]++
		}
	}
	d.Device.Submit(ops)
}

// TestClientMemoryChanges: what a client does to its own memory while the drive
// writes there proves nothing against the block.
func TestClientMemoryChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		d := &spoiling{}
		r.wrap = func(dev device.Device) device.Device { d.Device = dev; return d }
		s := r.open(small(engine.Options{FrameBytes: 8192}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0, 1, 2), engine.Stored)
		d.armed.Store(true)
		all(t, get(t, ns, 0), engine.Hit)
		// Without a frame to prove the block in, it is a miss and stays.
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		done := make(chan []engine.Status)
		go func() {
			items := make([]engine.GetItem, 2)
			for i := range items {
				items[i] = engine.GetItem{Key: key(1 + i), Dst: [][]byte{make([]byte, 4096)}}
			}
			must(t, ns.Get(items, engine.GetOptions{Bounce: true}))
			done <- []engine.Status{items[0].Status, items[1].Status}
		}()
		time.Sleep(time.Second / 2)
		r.disk.SetFaults(sim.Plan{})
		d.armed.Store(true)
		all(t, get(t, ns, 0), engine.Miss)
		all(t, <-done, engine.Hit)
		all(t, get(t, ns, 0), engine.Hit)
		if c := s.Stat().Counters; c.TornBlocks+c.StaleReads+c.LostBlocks != 0 || c.QuarantinedSlots != 0 {
			t.Errorf("%+v", c)
		}
		mustClose(t, s)
	})
}

// TestSegmentHeaderDamaged: the copy beside the file takes over; without one
// the segment's blocks miss and the rest works.
func TestSegmentHeaderDamaged(t *testing.T) {
	for _, xattrs := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{NoXattrs: !xattrs})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 40)...), engine.Stored)
			p := places(t, ns, sequence(0, 40)...)
			mustClose(t, s)
			name, _ := at(p[0], 4096)
			must(t, r.disk.FlipBit(name, 70, 1))
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 4096)
			lost := 0
			for n := range 40 {
				want := engine.Hit
				if file, _ := at(p[n], 4096); file == name && !xattrs {
					want = engine.Miss
					lost++
				}
				all(t, get(t, ns, n), want)
			}
			if !xattrs && (lost == 0 || lost == 40) {
				t.Errorf("%d of 40 blocks lay in the damaged segment", lost)
			}
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 40)...), engine.Stored, engine.Present)
			all(t, get(t, ns, sequence(0, 40)...), engine.Hit)
			mustClose(t, s)
			s = r.open(engine.Options{})
			all(t, get(t, namespace(t, s, "a", 4096), sequence(0, 40)...), engine.Hit)
			mustClose(t, s)
		})
	}
}

// TestForeignSegmentFile: a whole segment of another store is neither served
// nor removed.
func TestForeignSegmentFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newRig(t, sim.Config{Seed: 1}), newRig(t, sim.Config{Seed: 2})
		var raw []byte
		for _, r := range []*rig{a, b} {
			s := r.open(small(engine.Options{}))
			all(t, put(t, namespace(t, s, "a", 4096), engine.PutOptions{}, sequence(0, 5)...), engine.Stored)
			mustClose(t, s)
		}
		raw, err := a.disk.Bytes("seg-00000001")
		must(t, err)
		b.offline(func(dev device.Device) { must(t, dev.WriteFile("seg-00000077", raw)) })
		s := b.open(engine.Options{})
		ns := namespace(t, s, "a", 4096)
		all(t, get(t, ns, sequence(0, 5)...), engine.Hit)
		all(t, put(t, ns, engine.PutOptions{}, sequence(10, 100)...), engine.Stored)
		mustClose(t, s)
		again, err := b.disk.Bytes("seg-00000077")
		must(t, err)
		if !bytes.Equal(again, raw) {
			t.Error("a foreign file was changed")
		}
	})
}

// TestStoreFileDamaged: the three answers, each without touching anything.
func TestStoreFileDamaged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		all(t, put(t, namespace(t, s, "a", 4096), engine.PutOptions{}, 1), engine.Stored)
		mustClose(t, s)
		good, err := r.disk.Bytes("SPILLWAY")
		must(t, err)
		change := func(f func(b []byte) []byte) {
			r.offline(func(dev device.Device) { must(t, dev.WriteFile("SPILLWAY", f(bytes.Clone(good)))) })
		}
		for name, c := range map[string]struct {
			change func(b []byte) []byte
			want   error
		}{
			"bit":      {func(b []byte) []byte { b[len(b)/2] ^= 4; return b }, engine.ErrCorrupt},
			"checksum": {func(b []byte) []byte { b[9] ^= 4; return b }, engine.ErrCorrupt},
			"cut":      {func(b []byte) []byte { return b[:len(b)-1] }, engine.ErrCorrupt},
			"longer":   {func(b []byte) []byte { return append(b, ' ') }, engine.ErrCorrupt},
			"empty":    {func(b []byte) []byte { return nil }, engine.ErrNotAStore},
			"foreign":  {func(b []byte) []byte { return []byte("#!/bin/sh\necho hello world\n") }, engine.ErrNotAStore},
			"newer":    {func(b []byte) []byte { b[7] = '2'; return b }, engine.ErrVersion},
		} {
			change(c.change)
			_, err := r.tryOpen(engine.Options{})
			if err == nil {
				t.Fatalf("%s: opened", name)
			}
			wantErr(t, err, c.want)
		}
		change(func(b []byte) []byte { return b })
		s = r.open(engine.Options{})
		all(t, get(t, namespace(t, s, "a", 4096), 1), engine.Hit)
		mustClose(t, s)
	})
}

// TestIndexRemoved: without its index a store opens, says what it lost, and
// works; nothing old comes back wrong, new blocks survive.
func TestIndexRemoved(t *testing.T) {
	for _, logToo := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 100)...), engine.Stored)
			mustClose(t, s)
			s = r.open(engine.Options{})
			mustClose(t, s)
			r.fs = vfs.NewCrashableMem()
			if logToo {
				r.offline(func(dev device.Device) {
					names, err := dev.List()
					must(t, err)
					for _, n := range names {
						if isLog(n) {
							must(t, dev.Remove(n))
						}
					}
				})
			}
			var lines bytes.Buffer
			s = r.open(engine.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
			if got := lines.String(); !strings.Contains(got, "index") || !strings.Contains(got, "level=ERROR") && !strings.Contains(got, "level=WARN") {
				t.Errorf("it did not say what it lost: %s", got)
			}
			ns = namespace(t, s, "a", 4096)
			get(t, ns, sequence(0, 100)...) // exact, or a miss
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 50)...), engine.Stored, engine.Present)
			all(t, get(t, ns, sequence(0, 50)...), engine.Hit)
			mustClose(t, s)
			s = r.open(engine.Options{})
			all(t, get(t, namespace(t, s, "a", 4096), sequence(0, 50)...), engine.Hit)
			mustClose(t, s)
		})
	}
}

// logState is the content of all log files.
func (r *rig) logState() map[string][]byte {
	r.t.Helper()
	state := map[string][]byte{}
	for _, n := range r.disk.Names() {
		if isLog(n) {
			b, err := r.disk.Bytes(n)
			must(r.t, err)
			state[n] = b
		}
	}
	return state
}

// spot is one sector of a file.
type spot struct {
	name   string
	offset int64
}

// changed lists the sectors that are in after and not, or not so, in before.
func changed(before, after map[string][]byte) (spots []spot) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, now := before[name], after[name]
		for unit := 0; unit < len(now); unit += 512 {
			if len(was) < unit+512 || !bytes.Equal(was[unit:unit+512], now[unit:unit+512]) {
				spots = append(spots, spot{name, int64(unit)})
			}
		}
	}
	return spots
}

// TestLogDamagedInTheMiddle: wherever the log is damaged behind a deletion or
// in it, the deleted block stays deleted, at every later opening too.
func TestLogDamagedInTheMiddle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		durable := engine.PutOptions{Durability: engine.Durable}
		all(t, put(t, ns, durable, 1, 2, 3), engine.Stored)
		before := r.logState()
		if n, err := ns.Delete([]engine.Key{key(1)}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for n := 10; n < 14; n++ {
			all(t, put(t, ns, durable, n), engine.Stored)
		}
		r.kill(s)
		spots := changed(before, r.logState())
		if len(spots) < 5 {
			t.Fatalf("only %d sectors of the log changed", len(spots))
		}
		disk, fs, lostLater := r.disk, r.fs, 0
		for i, sp := range spots {
			for _, width := range []int{1, 2, 100} {
				r.disk = disk.Clone()
				r.fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
				for _, hit := range spots[i:min(i+width, len(spots))] {
					must(t, r.disk.FlipBit(hit.name, hit.offset+40, 2))
				}
				_ = sp
				for range 3 {
					s := r.open(engine.Options{})
					ns := namespace(t, s, "a", 4096)
					// Synced records behind the damage prove the deletion, or make
					// everything before it go; the last record alone may be lost.
					if got := get(t, ns, 1)[0]; got == engine.Hit && width < 100 {
						t.Errorf("damage at %v, %d wide: the deleted block came back", sp, width)
					}
					if get(t, ns, 13)[0] != engine.Hit {
						lostLater++
					}
					all(t, put(t, ns, durable, 50), engine.Stored, engine.Present)
					r.kill(s)
				}
			}
		}
		t.Logf("%d places of damage, the newest block lost in %d openings", 3*len(spots), lostLater)
	})
}

// durably is how the blocks of the tests below are put.
var durably = engine.PutOptions{Durability: engine.Durable}

// evictFirst fills a new store until block 0 has gone, and returns where in the log
// that stands.
func (r *rig) evictFirst() (s *engine.Store, ns *engine.Namespace, eviction []spot) {
	r.t.Helper()
	s = r.open(small(engine.Options{SyncInterval: time.Hour}))
	ns = namespace(r.t, s, "a", 4096)
	for n := range ns.Stat().Slots {
		all(r.t, put(r.t, ns, durably, n), engine.Stored)
	}
	before := r.logState()
	all(r.t, put(r.t, ns, durably, 1000), engine.Stored)
	all(r.t, get(r.t, ns, 0), engine.Miss)
	return s, ns, changed(before, r.logState())
}

// TestLostFreeThenDelete: the log loses the record of an eviction, so that two
// puts of one block are in the index; deleting it deletes both for good.
func TestLostFreeThenDelete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s, ns, eviction := r.evictFirst()
		all(t, put(t, ns, durably, 0), engine.Stored)
		all(t, put(t, ns, durably, 1001), engine.Stored)
		r.kill(s)
		disk, fs, twice := r.disk, r.fs, 0
		for _, sp := range eviction {
			r.disk, r.fs = disk.Clone(), fs.CrashClone(vfs.CrashCloneCfg{})
			must(t, r.disk.FlipBit(sp.name, sp.offset+40, 2))
			s := r.open(engine.Options{SyncInterval: time.Hour})
			ns := namespace(t, s, "a", 4096)
			if get(t, ns, 0)[0] == engine.Hit {
				twice++
			}
			_, err := ns.Delete([]engine.Key{key(0)})
			must(t, err)
			r.crash(s, true, 0)
			s = r.open(engine.Options{SyncInterval: time.Hour})
			ns = namespace(t, s, "a", 4096)
			if get(t, ns, 0)[0] == engine.Hit {
				t.Errorf("damage at %v: the block came back after its deletion", sp)
			}
			mustClose(t, s)
		}
		if twice == 0 {
			t.Error("no damage left two puts of the block")
		}
	})
}

// TestLostFreeOfADeletedBlock: a block is evicted, and then deleted though it is
// not there any more. If the log loses the record of the eviction, the deletion
// holds nevertheless.
func TestLostFreeOfADeletedBlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s, ns, eviction := r.evictFirst()
		all(t, put(t, ns, durably, 5000), engine.Stored)
		if n, err := ns.Delete(keysOf(0)); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		all(t, put(t, ns, durably, 5001), engine.Stored)
		r.kill(s)
		disk, fs := r.disk, r.fs
		for _, sp := range eviction {
			r.disk, r.fs = disk.Clone(), fs.CrashClone(vfs.CrashCloneCfg{})
			must(t, r.disk.FlipBit(sp.name, sp.offset+40, 2))
			s := r.open(engine.Options{})
			if get(t, namespace(t, s, "a", 4096), 0)[0] == engine.Hit {
				t.Errorf("damage at %v: the block came back after its deletion", sp)
			}
			mustClose(t, s)
		}
	})
}
