package mount

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
)

func (r *rig) space(name string) node.SpaceStat {
	r.t.Helper()
	for _, s := range r.node.Stat().Spaces {
		if s.Name == name {
			return s
		}
	}
	r.t.Fatalf("no namespace %q", name)
	return node.SpaceStat{}
}

// dialWith tries to connect once.
func (r *rig) dialWith(token string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := client.New(client.Options{Path: r.socket, Token: token})
	for {
		one, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		err := c.Await(one)
		stop()
		switch {
		case err == nil:
			r.t.Cleanup(c.Close)
			return c, nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			c.Close()
			return nil, err
		}
	}
}

// TestUpdate: what may change of a node that serves does, for those that come after;
// who is connected goes on. Options that are wrong change nothing.
func TestUpdate(t *testing.T) {
	r := newRig(t, 2)
	r.options = node.Options{Token: "old", Namespaces: map[string]node.NamespaceRule{"a": {Share: 2, QuotaBytes: 48 << 20}}}
	r.start()
	first, err := r.dialWith("old")
	must(t, err)
	a, rows := open(t, first, "a"), newPool(t, first, 4)
	rows.put(a, 0, 4, client.Stored)
	if s := r.space("a"); s.Share != 2 || s.QuotaBytes != 48<<20 {
		t.Errorf("at first: %+v", s)
	}

	bad := node.Options{Token: "bad", ConnectionsMax: -1}
	if err := r.node.Update(bad); !errors.Is(err, node.ErrOptions) {
		t.Errorf("wrong options: %v", err)
	}
	_, err = r.dialWith("old")
	must(t, err)

	next := node.Options{Token: "new", RequestsMax: 7, KeysMax: 100, PutQueueBytes: 1 << 20, AllowUIDs: nil,
		Namespaces: map[string]node.NamespaceRule{"a": {Share: 5, QuotaBytes: 40 << 20}, "b": {Token: "b's"}}}
	must(t, r.node.Update(next))
	if _, err := r.dialWith("old"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("the old token: %v", err)
	}
	second, err := r.dialWith("new")
	must(t, err)
	if l, _ := second.Limits(); l.Requests != 7 || l.Keys != 100 {
		t.Errorf("limits %+v", l)
	}
	if l, _ := first.Limits(); l.Requests != 256 {
		t.Errorf("limits of the first %+v", l)
	}
	rows.get(a, 0, 4, client.Hit)
	if m := a.Match(keys(0, 200), client.MatchOptions{}); m.Prefix != 4 {
		t.Errorf("200 keys, which the first may still ask for: %+v", m)
	}
	if s := r.space("a"); s.Share != 5 || s.QuotaBytes != 40<<20 {
		t.Errorf("then: %+v", s)
	}
	if d := r.node.Stat().Drives[1]; d.AdmittedMaxBytes != 1<<20 {
		t.Errorf("put queue %+v", d)
	}
	if _, err := second.Namespace(context.Background(), descriptor("b"), "c's"); err == nil {
		t.Error("opened a namespace with another's token")
	}
	_, err = second.Namespace(context.Background(), descriptor("b"), "b's")
	must(t, err)

	// A rule that goes leaves the quota; NoQuota takes it away.
	must(t, r.node.Update(node.Options{}))
	if s := r.space("a"); s.Share != 1 || s.QuotaBytes != 40<<20 {
		t.Errorf("without a rule: %+v", s)
	}
	must(t, r.node.Update(node.Options{Namespaces: map[string]node.NamespaceRule{"a": {QuotaBytes: node.NoQuota}}}))
	if s := r.space("a"); s.QuotaBytes != 0 {
		t.Errorf("without a quota: %+v", s)
	}
	err = r.node.Update(node.Options{RequestsMax: 9, Namespaces: map[string]node.NamespaceRule{"a": {QuotaBytes: 2}}})
	if err == nil || errors.Is(err, node.ErrOptions) || r.node.Options().RequestsMax != 9 {
		t.Errorf("a quota that no store takes: %v, %+v", err, r.node.Options())
	}
}

// TestOperate: an operator drops namespaces, limits them and ends connections.
func TestOperate(t *testing.T) {
	r := newRig(t, 2).start()
	c := r.dial()
	a, b, rows := open(t, c, "a"), open(t, c, "b"), newPool(t, c, 100)
	rows.put(a, 0, 100, client.Stored)
	rows.put(b, 0, 100, client.Stored)
	must(t, r.node.DropNamespace("a"))
	rows.get(a, 0, 100, client.Miss)
	rows.get(b, 0, 100, client.Hit)
	rows.put(a, 0, 10, client.Stored)
	must(t, r.node.DropNamespace(r.space("b").ID[:12]))
	rows.get(b, 0, 100, client.Miss)
	if err := r.node.DropNamespace("nobody's"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	must(t, r.node.SetQuota("b", 40<<20))
	if s := r.space("b"); s.QuotaBytes != 40<<20 {
		t.Errorf("%+v", s)
	}
	must(t, r.node.SetQuota("b", 0))
	if s := r.space("b"); s.QuotaBytes != 0 {
		t.Errorf("%+v", s)
	}
	if r.node.Disconnect(4711) {
		t.Error("disconnected nobody")
	}
	number := r.node.Stat().Clients[0].Number
	if !r.node.Disconnect(number) || r.node.Disconnect(number) {
		t.Error("not disconnected exactly once")
	}
	eventually(t, "the client is back", func() bool { st := r.node.Stat(); return len(st.Clients) == 1 && st.Clients[0].Number > number })
	eventually(t, "its namespace too", func() bool { return a.Match(keys(0, 10), client.MatchOptions{}).Prefix == 10 })
	rows.get(a, 0, 10, client.Hit)
	r.node.Alive()
}

// TestRefusalsEnd: a bound refuses single requests; afterwards everything is stored
// again. While nothing is, the node says so.
func TestRefusalsEnd(t *testing.T) {
	r := newRig(t, 1).start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 100)
	must(t, r.node.Update(node.Options{NamespacesMax: 1, RegionsMax: 1, LeasesMax: 1, RequestsMax: 4, KeysMax: 1, PutQueueBytes: 4096}))
	small := r.dial()
	few, memory := open(t, small, "a"), newPool(t, small, 2)
	if _, err := small.Namespace(context.Background(), descriptor("b"), ""); err == nil {
		t.Error("a namespace too many was opened")
	}
	if _, err := small.Allocate(blockBytes); err == nil {
		t.Error("a region too many was made")
	}
	memory.put(few, 0, 1, client.Stored)
	for range 3 {
		if m := few.Match(keys(0, 1), client.MatchOptions{Lease: time.Minute}); m.Prefix != 1 {
			t.Errorf("%+v", m)
		}
	}
	must(t, r.node.Update(node.Options{}))
	rows.put(ns, 100, 100, client.Stored)
	rows.get(ns, 100, 100, client.Hit)
	if st := r.node.Stat(); st.StoringNothing {
		t.Error("says that nothing is stored")
	}
}

// TestCounters: 70 hits and 30 misses are 70 hits and 30 misses; nothing counts when
// nothing happens, and two looks in a row agree.
func TestCounters(t *testing.T) {
	for _, stores := range []int{1, 3} {
		r := newRig(t, stores).start()
		c := r.dial()
		ns, rows := open(t, c, "a"), newPool(t, c, 100)
		rows.put(ns, 0, 70, client.Stored)
		rows.put(ns, 0, 10, client.Present)
		rows.get(ns, 0, 100, client.Hit, client.Miss)
		must(t, c.Drain(context.Background()))
		want := node.SpaceStat{Hits: 70, PrefixHits: 70, Misses: 30, Stored: 70, Present: 10, ReadBytes: 70 * blockBytes, WrittenBytes: 70 * blockBytes, Blocks: 70}
		for range 2 {
			st := r.node.Stat()
			s := st.Spaces[0]
			got := node.SpaceStat{Hits: s.Hits, PrefixHits: s.PrefixHits, Misses: s.Misses, Late: s.Late, Busy: s.Busy, Stored: s.Stored, Present: s.Present,
				Dropped: s.Dropped, LatePuts: s.LatePuts, ReadBytes: s.ReadBytes, WrittenBytes: s.WrittenBytes, Blocks: s.Blocks}
			if got != want {
				t.Errorf("%d stores: %+v, want %+v", stores, got, want)
			}
			if st.Recent.Reads != 70 || r.node.BlockReads().Count != 70 {
				t.Errorf("%d and %d block reads measured", st.Recent.Reads, r.node.BlockReads().Count)
			}
			for _, op := range r.node.Operations() {
				if want := map[string]uint64{"get": 1, "put": 2, "open_namespace": 1, "register_region": 1}[op.Name]; op.Times.Count != want {
					t.Errorf("%s: %d times, want %d", op.Name, op.Times.Count, want)
				}
			}
		}
		// A gap ends the prefix.
		_, err := ns.Delete(context.Background(), 0, keys(20, 1))
		must(t, err)
		rows.get(ns, 0, 70, client.Hit, client.Miss)
		if s := r.space("a"); s.PrefixHits != 70+20 || s.Hits != 70+69 || s.Misses != 31 {
			t.Errorf("after a deletion: %+v", s)
		}
		r.stop()
	}
}
