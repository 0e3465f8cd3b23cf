package mount

import (
	"context"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// TestMount: what is put through a socket is found and read through it, by this
// client and others, over one store and over three.
func TestMount(t *testing.T) {
	for _, stores := range []int{1, 3} {
		r := newRig(t, stores).start()
		c := r.dial()
		ns, rows := open(t, c, "a"), newPool(t, c, 100)
		if ns.BlockBytes() != blockBytes {
			t.Fatalf("blocks of %d bytes", ns.BlockBytes())
		}
		rows.put(ns, 0, 100, client.Stored)
		rows.put(ns, 50, 100, client.Stored, client.Present)
		if m := ns.Match(keys(0, 160), client.MatchOptions{Trailing: 5}); m.Prefix != 150 || m.Trailing != 0 || !m.Present(149) || m.Present(150) {
			t.Errorf("%d stores: matched %+v", stores, m)
		}
		other := r.dial()
		others, theirs := open(t, other, "a"), newPool(t, other, 100)
		theirs.get(others, 50, 100, client.Hit)
		theirs.get(others, 150, 10, client.Miss)
		theirs.get(open(t, other, "b"), 0, 10, client.Miss)
		if n, err := ns.Delete(context.Background(), 0, keys(10, 20)); n != 20 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		if m := others.Match(keys(0, 150), client.MatchOptions{Trailing: 1000}); m.Prefix != 10 || m.Trailing != 120 {
			t.Errorf("after the deletion: %+v", m)
		}
		if n := others.Touch(0, keys(0, 40)); n != 20 {
			t.Errorf("touched %d", n)
		}
		prefix := ns.Get(rows.blocks(0, 40), client.GetOptions{Prefix: true}).Wait()
		if prefix.Prefix != 10 || prefix.Statuses[10] != client.Miss || prefix.Statuses[35] != client.Miss {
			t.Errorf("prefix: %+v", prefix)
		}
		must(t, ns.Drop(context.Background()))
		theirs.get(others, 0, 100, client.Miss)
		rows.put(ns, 0, 10, client.Stored)
		theirs.get(others, 0, 10, client.Hit)
		c.Close()
		other.Close()
		r.stop()
	}
}

// TestAwayAndBack: without a daemon everything misses at once; when it is back, the
// same namespaces and regions work, and what was stored is there.
func TestAwayAndBack(t *testing.T) {
	r := newRig(t, 2).start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 20)
	rows.put(ns, 0, 20, client.Stored)
	for range 3 {
		r.stop()
		eventually(t, "the client notices", func() bool { return !c.Connected() })
		rows.get(ns, 0, 20, client.Miss)
		rows.put(ns, 100, 20, client.Dropped)
		if m := ns.Match(keys(0, 20), client.MatchOptions{Lease: time.Second}); m.Prefix != 0 || m.Present(0) {
			t.Errorf("matched %+v without a daemon", m)
		}
		if _, err := ns.Delete(context.Background(), 0, keys(0, 1)); err == nil {
			t.Error("deleted without a daemon")
		}
		r.start()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		must(t, c.Await(ctx))
		cancel()
		rows.get(ns, 0, 20, client.Hit)
	}
}
