package engine_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/table"
)

// TestCoalescedReads: readers of one block through frames share one transfer,
// each with the whole block in its own memory.
func TestCoalescedReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		count := r.count()
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 0, 1), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		const readers = 20
		done := make(chan []engine.GetItem)
		for range readers {
			go func() {
				items := getItems(oddBytes, false, 0)
				must(t, ns.Get(items, engine.GetOptions{}))
				done <- items
			}()
		}
		for range readers {
			items := <-done
			if items[0].Status != engine.Hit || !bytes.Equal(items[0].Dst[0], content(0, oddBytes)) {
				t.Errorf("%v", items[0].Status)
			}
		}
		if n := count.reads.Load(); n != 1 {
			t.Errorf("%d transfers for one block", n)
		}
		if c := s.Stat().Counters; c.Coalesced != readers-1 || c.Hits != readers {
			t.Errorf("%+v", c)
		}
		// Twice in one batch, too; and a later reader reads again.
		all(t, get(t, ns, 1, 1, 0), engine.Hit)
		if n := count.reads.Load(); n != 3 {
			t.Errorf("%d transfers, want 3", n)
		}
		mustClose(t, s)
	})
}

// TestCoalescedDeadlines: a late follower does not hold up the leader, and a
// late leader does not cost its followers their block.
func TestCoalescedDeadlines(t *testing.T) {
	for _, leaderLate := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{})
			count := r.count()
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", oddBytes)
			all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
			r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
			rel := newReleases()
			done := make(chan []engine.GetItem, 2)
			for who := range 2 {
				go func() {
					time.Sleep(time.Duration(who) * time.Millisecond)
					items := getItems(oddBytes, true, 0)
					o := engine.GetOptions{}
					if (who == 0) == leaderLate {
						o = engine.GetOptions{Deadline: rel.start.Add(100 * time.Millisecond), Released: rel.note}
					}
					must(t, ns.Get(items, o))
					done <- items
				}()
			}
			late := <-done
			if late[0].Status != engine.Late {
				t.Errorf("%v", late[0].Status)
			}
			rel.want(t, 0, 100*time.Millisecond)
			clear(late[0].Dst[0])
			hit := <-done
			if hit[0].Status != engine.Hit || !bytes.Equal(hit[0].Dst[0], content(0, oddBytes)) {
				t.Errorf("%v", hit[0].Status)
			}
			time.Sleep(5 * time.Second)
			rel.want(t, 0, 100*time.Millisecond)
			if !bytes.Equal(late[0].Dst[0], make([]byte, oddBytes)) {
				t.Error("memory was written after its release")
			}
			if n := count.reads.Load(); n != 1 {
				t.Errorf("%d transfers", n)
			}
			mustClose(t, s)
		})
	}
}

// TestDirectReadsDoNotCoalesce: what lies in a client's memory serves nobody
// else, even if it is spoiled at the worst moment.
func TestDirectReadsDoNotCoalesce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		count := r.count()
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		done := make(chan []engine.GetItem)
		for who := range 4 {
			go func() {
				items := getItems(4096, who < 3, 0) // the last one needs a frame
				must(t, ns.Get(items, engine.GetOptions{}))
				done <- items
			}()
		}
		for range 4 {
			items := <-done
			if items[0].Status != engine.Hit || !bytes.Equal(items[0].Dst[0], content(0, 4096)) {
				t.Errorf("%v", items[0].Status)
			}
			clear(items[0].Dst[0])
		}
		if c := s.Stat().Counters; count.reads.Load() != 4 || c.Coalesced != 0 {
			t.Errorf("%d transfers, %+v", count.reads.Load(), c)
		}
		mustClose(t, s)
	})
}

// TestCoalescedDamage: if the shared read fails, all who share it miss, the
// damage counts once, and nothing stays pinned.
func TestCoalescedDamage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.flip(places(t, ns, 0)[0], 8192)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		done := make(chan []engine.Status)
		for range 5 {
			go func() { done <- get(t, ns, 0) }()
		}
		for range 5 {
			all(t, <-done, engine.Miss)
		}
		r.disk.SetFaults(sim.Plan{})
		if c := s.Stat().Counters; c.TornBlocks != 1 || c.Misses != 5 || c.Coalesced != 4 {
			t.Errorf("%+v", c)
		}
		time.Sleep(3 * time.Second)
		mustClose(t, s)
	})
}

// TestReplacedBlockIsNotJoined: a read of an older put of the same key is not
// joined by those who want the newer one.
func TestReplacedBlockIsNotJoined(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: time.Second})
		old := make(chan []engine.GetItem)
		go func() {
			items := getItems(oddBytes, true, 0)
			must(t, ns.Get(items, engine.GetOptions{}))
			old <- items
		}()
		time.Sleep(100 * time.Millisecond)
		r.disk.SetFaults(sim.Plan{})
		if n, err := ns.Delete(keysOf(0)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		item := []engine.PutItem{{Key: key(0), Src: [][]byte{content(500, oddBytes)}}}
		must(t, ns.Put(item, engine.PutOptions{}))
		items := getItems(oddBytes, true, 0)
		must(t, ns.Get(items, engine.GetOptions{}))
		if items[0].Status != engine.Hit || !bytes.Equal(items[0].Dst[0], content(500, oddBytes)) {
			t.Errorf("the new block: %v", items[0].Status)
		}
		first := <-old
		if first[0].Status == engine.Hit && !bytes.Equal(first[0].Dst[0], content(0, oddBytes)) {
			t.Error("the old read has other bytes than the old block")
		}
		time.Sleep(3 * time.Second)
		mustClose(t, s)
	})
}

// TestTooManyReadsOfOneBlock: what cannot be counted any more is refused at once.
func TestTooManyReadsOfOneBlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", oddBytes)
		all(t, put(t, ns, engine.PutOptions{}, 0), engine.Stored)
		s.SetPins(table.PinsMax - 2)
		items := getItems(oddBytes, false, 0, 0, 0)
		must(t, ns.Get(items, engine.GetOptions{}))
		counts := map[engine.Status]int{}
		for i := range items {
			counts[items[i].Status]++
		}
		if counts[engine.Hit] != 2 || counts[engine.Busy] != 1 {
			t.Errorf("%v, want 2 hits and 1 busy", counts)
		}
		s.SetPins(table.PinsMax)
		all(t, get(t, ns, 0), engine.Busy)
		s.SetPins(0)
		all(t, get(t, ns, 0), engine.Hit)
		mustClose(t, s)
	})
}
