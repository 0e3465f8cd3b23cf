package engine_test

import (
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestSyncsFindRoom: with the smallest queue, full of reads, and a deletion being
// written, the syncs of many segments still find room in it: one that was refused
// would make a store on a healthy drive read-only.
func TestSyncsFindRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{QueueOps: 32})
		s := r.open(small(engine.Options{QueueOps: 32}))
		var spaces []*engine.Namespace
		for i := range 12 { // each with a segment of its own to sync
			ns := namespace(t, s, string(rune('a'+i)), 4096)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, 1, 2, 3), engine.Stored)
			spaces = append(spaces, ns)
		}
		time.Sleep(3 * time.Second)
		for _, ns := range spaces {
			all(t, put(t, ns, engine.PutOptions{}, 10), engine.Stored)
		}
		r.disk.SetFaults(sim.Plan{Filter: func(name string) bool { return !isLog(name) }, Delay: 1, DelayBy: 2 * time.Second})
		var calls sync.WaitGroup
		for _, ns := range spaces {
			calls.Go(func() { all(t, get(t, ns, 1, 2, 3), engine.Hit) })
		}
		for i, ns := range spaces {
			calls.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Millisecond)
				_, err := ns.Delete(keysOf(10))
				must(t, err)
			})
		}
		calls.Wait()
		health(t, s, "ok")
		r.disk.SetFaults(sim.Plan{})
		mustClose(t, s)
	})
}

// TestListsAreNotKept: after Late the list of pieces is the caller's again,
// though the pieces are not: a transfer that is still queued goes on with the
// memory that the call named.
func TestListsAreNotKept(t *testing.T) {
	aligned := func() [][]byte { return [][]byte{device.AlignedBuffer(4096, 4096), device.AlignedBuffer(4096, 4096)} }
	mine := aligned()
	for i := range mine { // what the caller does next with the list
		copy(mine[i], content(99, 4096))
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{QueueDepth: 1})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 8192)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2, 3), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 200 * time.Millisecond})
		released := make(chan int, 6)
		note := func(i int) { released <- i }

		gets := getItems(8192, true, 1, 2, 3)
		for i := range gets {
			gets[i].Dst = aligned()
		}
		must(t, ns.Get(gets, engine.GetOptions{Deadline: time.Now().Add(time.Millisecond), Released: note}))
		puts := putItems(8192, 11, 12, 13)
		for i := range puts {
			whole := puts[i].Src[0]
			puts[i].Src = aligned()
			copy(puts[i].Src[0], whole)
			copy(puts[i].Src[1], whole[4096:])
		}
		must(t, ns.Put(puts, engine.PutOptions{Deadline: time.Now().Add(time.Millisecond), Released: note}))
		for i := range gets {
			all(t, []engine.Status{gets[i].Status, puts[i].Status}, engine.Late)
			copy(gets[i].Dst, mine)
			copy(puts[i].Src, mine)
		}
		for range 6 {
			<-released
		}
		for _, piece := range mine {
			if string(piece) != string(content(99, 4096)) {
				t.Error("a get wrote to memory that it was not given")
			}
		}
		r.disk.SetFaults(sim.Plan{})
		checkedGet(t, ns, 11, 12, 13)
		all(t, get(t, ns, 11, 12, 13), engine.Hit)
		mustClose(t, s)
	})
}
