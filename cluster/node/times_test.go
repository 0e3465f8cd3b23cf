package node

import (
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// TestRecent: the last minute holds what happened in it, and forgets it.
func TestRecent(t *testing.T) {
	n := &Node{}
	start := time.Unix(1_000_000, 0)
	n.times.read(start, 5*time.Millisecond, 3)
	n.times.put(start, 0, 4)
	n.times.read(start.Add(30*time.Second), 7*time.Millisecond, 2)
	for _, c := range []struct {
		after          time.Duration
		reads          uint64
		storingNothing bool
	}{{0, 3, true}, {29 * time.Second, 3, true}, {30 * time.Second, 5, true}, {59 * time.Second, 5, true},
		{80 * time.Second, 2, false}, {2 * time.Minute, 0, false}, {-time.Hour, 0, false}, {24 * time.Hour, 0, false}} {
		r := n.Recent(start.Add(c.after))
		if r.Reads.Count != c.reads || r.StoringNothing() != c.storingNothing {
			t.Errorf("after %v: %d reads, storing nothing %v; want %d, %v", c.after, r.Reads.Count, r.StoringNothing(), c.reads, c.storingNothing)
		}
	}
	if all := n.BlockReads(); all.Count != 5 || all.MaxNS != (7*time.Millisecond).Nanoseconds() {
		t.Errorf("in all: %+v", all)
	}
	n.times.put(start.Add(31*time.Second), 1, 0)
	if r := n.Recent(start.Add(32 * time.Second)); r.StoringNothing() {
		t.Error("a block was stored")
	}
	// A clock that is set back finds the newer part and counts there.
	n.times.read(start.Add(2*time.Hour), time.Millisecond, 1)
	n.times.read(start.Add(2*time.Hour-70*time.Second), time.Millisecond, 1)
	if r := n.Recent(start.Add(2 * time.Hour)); r.Reads.Count != 2 {
		t.Errorf("%d reads", r.Reads.Count)
	}
}

// TestTimesTogether: nothing is lost when many record at once, also at the turn of a
// part.
func TestTimesTogether(t *testing.T) {
	n := &Node{}
	start := time.Unix(1_000_000, 0)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 1000 {
				n.times.read(start.Add(time.Duration(i)*50*time.Millisecond), time.Microsecond, 1)
				n.times.put(start.Add(time.Duration(i)*50*time.Millisecond), 1, uint64(g%2))
				n.times.request(wire.TypeGet, time.Microsecond)
				n.times.request(wire.TypePing, time.Microsecond)
			}
		})
	}
	all.Wait()
	r := n.Recent(start.Add(50 * time.Second))
	if r.Reads.Count != 8000 || r.Kept != 8000 || r.Denied != 4000 {
		t.Errorf("%d reads, %d kept, %d denied", r.Reads.Count, r.Kept, r.Denied)
	}
	for _, op := range n.Operations() {
		want := uint64(0)
		if op.Name == "get" {
			want = 8000
		}
		if op.Times.Count != want {
			t.Errorf("%s: %d", op.Name, op.Times.Count)
		}
	}
}
