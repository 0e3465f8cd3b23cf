package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

const oddBytes = 4100 // a block that needs a frame

// TestPutWakesWhenAFrameReturns: a put that waits for a frame goes on at the
// moment a read gives one back.
func TestPutWakesWhenAFrameReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{FrameBytes: 2 * 8192}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		time.Sleep(5*time.Second + 500*time.Millisecond) // away from every tick
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 100 * time.Millisecond})
		done := make(chan []engine.Status)
		go func() { done <- get(t, ns, 1, 2) }()
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		all(t, put(t, ns, engine.PutOptions{}, 3), engine.Stored)
		if d := time.Since(start); d != 150*time.Millisecond {
			t.Errorf("the put took %v, want 50 ms of waiting and 100 ms of writing", d)
		}
		all(t, <-done, engine.Hit)
		mustClose(t, s)
	})
}

// TestPutWakesWhenAPutEnds: the same with a put that holds the frames.
func TestPutWakesWhenAPutEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{FrameBytes: 2 * 8192}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 100 * time.Millisecond})
		start := time.Now()
		var ended atomic.Int32
		done := make(chan struct{})
		for n := range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				all(t, put(t, ns, engine.PutOptions{}, 10+n), engine.Stored)
				ended.Add(1)
			}()
		}
		for range 4 {
			<-done
		}
		if d := time.Since(start); d != 200*time.Millisecond {
			t.Errorf("four puts through two frames took %v, want 200 ms", d)
		}
		mustClose(t, s)
	})
}

// TestPutWakesWhenATransferEnds: the same at the bound of transfers.
func TestPutWakesWhenATransferEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{QueueDepth: 32, QueueOps: 64})
		s := r.open(small(engine.Options{QueueOps: 40, QueueDepth: 32})) // 24 transfers
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 24)...), engine.Stored)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 100 * time.Millisecond})
		done := make(chan []engine.Status)
		go func() { done <- get(t, ns, sequence(0, 24)...) }()
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		all(t, put(t, ns, engine.PutOptions{}, 100), engine.Stored)
		if d := time.Since(start); d != 150*time.Millisecond {
			t.Errorf("the put took %v, want 50 ms of waiting and 100 ms of writing", d)
		}
		all(t, <-done, engine.Hit)
		mustClose(t, s)
	})
}

// TestDurablePutWithDeadline: nothing is acknowledged as durable that was not
// synced when the deadline came: not a present block either.
func TestDurablePutWithDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{SyncInterval: time.Hour}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := putItems(4096, 1, 2) // 1 is present and unsynced, 2 is written too late
		released := make([]atomic.Int32, len(items))
		must(t, ns.Put(items, engine.PutOptions{Durability: engine.Durable,
			Deadline: time.Now().Add(100 * time.Millisecond),
			Released: func(i int) { released[i].Add(1) }}))
		all(t, putStatuses(items), engine.Late)
		time.Sleep(5 * time.Second)
		for i := range released {
			if n := released[i].Load(); n != 1 {
				t.Errorf("item %d released %d times", i, n)
			}
		}
		r.disk.SetFaults(sim.Plan{})
		all(t, get(t, ns, 1, 2), engine.Hit) // the late put is stored
		mustClose(t, s)
	})
}

// TestDurablePutSomeChunksLate: chunks that were stored before the deadline
// are not durable yet when it comes.
func TestDurablePutSomeChunksLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{SyncInterval: time.Hour, FrameBytes: 2 * 8192}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		items := make([]engine.PutItem, 4)
		for i := range items {
			items[i] = engine.PutItem{Key: key(i + 1), Src: [][]byte{content(i+1, oddBytes)}}
		}
		released := make([]atomic.Int32, len(items))
		must(t, ns.Put(items, engine.PutOptions{Durability: engine.Durable,
			Deadline: time.Now().Add(1500 * time.Millisecond),
			Released: func(i int) { released[i].Add(1) }}))
		for i := range items {
			if items[i].Status != engine.Late {
				t.Errorf("item %d: %v, want Late: it was not synced", i, items[i].Status)
			}
		}
		time.Sleep(5 * time.Second)
		for i := range released {
			if n := released[i].Load(); n != 1 {
				t.Errorf("item %d released %d times", i, n)
			}
		}
		mustClose(t, s)
	})
}

// TestPutLateIsStillStored: a put that misses its deadline frees the source
// when the drive is done with it, and the block is a hit from then on.
func TestPutLateIsStillStored(t *testing.T) {
	for _, blockBytes := range []int{4096, oddBytes} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", blockBytes)
			all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
			r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
			src := content(1, blockBytes)
			item := []engine.PutItem{{Key: key(1), Src: [][]byte{src}}}
			released := make(chan time.Duration, 2)
			start := time.Now()
			must(t, ns.Put(item, engine.PutOptions{Deadline: start.Add(100 * time.Millisecond),
				Released: func(int) { released <- time.Since(start) }}))
			if d := time.Since(start); item[0].Status != engine.Late || d != 100*time.Millisecond {
				t.Fatalf("%v after %v", item[0].Status, d)
			}
			if d := <-released; d != time.Second {
				t.Errorf("released after %v, the write took 1 s", d)
			}
			clear(src)
			r.disk.SetFaults(sim.Plan{})
			all(t, get(t, ns, 1), engine.Hit)
			if len(released) != 0 {
				t.Error("released twice")
			}
			mustClose(t, s)
		})
	}
}

// TestPutMemoryChanges: a source that its owner changes during the put costs
// that block, and nothing else.
func TestPutMemoryChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		d := &spoiling{}
		r.wrap = func(dev device.Device) device.Device { d.Device = dev; return d }
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		d.sources.Store(true)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		if d.sources.Load() {
			t.Fatal("nothing was changed")
		}
		all(t, get(t, ns, 1), engine.Miss)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		all(t, get(t, ns, 0, 1), engine.Hit)
		mustClose(t, s)
	})
}

// TestTwoPutsOfOneBlock: the first published wins, whatever the other brings.
func TestTwoPutsOfOneBlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		done := make(chan engine.Status, 2)
		for who := range 2 {
			go func() {
				time.Sleep(time.Duration(who) * time.Millisecond)
				item := []engine.PutItem{{Key: key(1), Src: [][]byte{content(1+who, 4096)}}}
				must(t, ns.Put(item, engine.PutOptions{}))
				done <- item[0].Status
			}()
		}
		if a, b := <-done, <-done; a == b || a != engine.Stored && a != engine.Present || b != engine.Stored && b != engine.Present {
			t.Errorf("%v and %v", a, b)
		}
		r.disk.SetFaults(sim.Plan{})
		all(t, get(t, ns, 1), engine.Hit) // the content of who 0
		// The same block twice in one batch, with other bytes: the later item wins.
		items := []engine.PutItem{
			{Key: key(5), Src: [][]byte{content(6, 4096)}},
			{Key: key(5), Src: [][]byte{content(5, 4096)}}}
		must(t, ns.Put(items, engine.PutOptions{DropIfBusy: true}))
		if items[0].Status != engine.Present || items[1].Status != engine.Stored {
			t.Errorf("%v and %v", items[0].Status, items[1].Status)
		}
		all(t, get(t, ns, 5), engine.Hit)
		mustClose(t, s)
	})
}

// TestPutWriteError: a failed write costs its slot and drops that put only.
func TestPutWriteError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, WriteEIO: 1})
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Dropped)
		r.disk.SetFaults(sim.Plan{})
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		all(t, get(t, ns, 0, 1, 2), engine.Hit)
		c := s.Stat().Counters
		if c.WriteErrors != 2 || c.QuarantinedSlots != 2 || c.DroppedPuts != 2 {
			t.Errorf("%+v", c)
		}
		time.Sleep(2 * time.Second)
		mustClose(t, s)
		s = r.open(engine.Options{})
		if c := s.Stat().Counters; c.QuarantinedSlots != 2 {
			t.Errorf("after a reopening %d slots are quarantined, want 2", c.QuarantinedSlots)
		}
		mustClose(t, s)
	})
}

// TestPutQueueFull: a queue that refuses answers Busy to reads and Dropped to
// puts, and costs no slot.
func TestPutQueueFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{QueueDepth: 2, QueueOps: 4})
		s := r.open(small(engine.Options{SyncInterval: time.Hour}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		count := map[engine.Status]int{}
		for _, st := range put(t, ns, engine.PutOptions{}, sequence(10, 12)...) {
			count[st]++
		}
		// Four ops have room, of whatever kind: the log and the keeper have some.
		if count[engine.Stored] == 0 || count[engine.Dropped] < 8 || len(count) != 2 {
			t.Errorf("puts: %v", count)
		}
		clear(count)
		r.disk.SetFaults(sim.Plan{})
		all(t, put(t, ns, engine.PutOptions{}, 2), engine.Stored)
		all(t, put(t, ns, engine.PutOptions{}, 3), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		for _, st := range get(t, ns, 1, 2, 3, 1, 2, 3) {
			count[st]++
		}
		if count[engine.Hit] == 0 || count[engine.Busy] < 2 || len(count) != 2 {
			t.Errorf("gets: %v", count)
		}
		r.disk.SetFaults(sim.Plan{})
		if c := s.Stat().Counters; c.QuarantinedSlots != 0 || c.WriteErrors != 0 || c.BusyReads != uint64(count[engine.Busy]) {
			t.Errorf("%+v", c)
		}
		mustClose(t, s)
	})
}
