package mount

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	tier "github.com/spillway-kv/spillway/tiering/memory"
)

// TestWorthLoading: from a drive slower than the GPU a match finds nothing, and says
// so in the statistics; when the drive is quick again, so does the match, without a
// restart.
func TestWorthLoading(t *testing.T) {
	r := newSimRig(t).start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 64)
	rows.put(ns, 0, 64, client.Stored)
	worth := client.MatchOptions{Compute: 50 * time.Microsecond, Lease: time.Minute} // 64 blocks in 3.2 ms
	if m := ns.Match(keys(0, 64), worth); m.Prefix != 64 {
		t.Fatalf("unmeasured: %+v", m)
	}
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 20 * time.Millisecond})
	for range 16 << 20 / (64 * blockBytes) * 2 { // enough to be a measurement
		rows.get(ns, 0, 64, client.Hit)
	}
	m := ns.Match(keys(0, 64), worth)
	if m.Prefix != 0 || m.Present(0) || m.Leased != 0 {
		t.Errorf("from a slow drive: %+v", m)
	}
	if m := ns.Match(keys(0, 64), client.MatchOptions{}); m.Prefix != 64 {
		t.Errorf("without a compute time: %+v", m)
	}
	if n := r.node.Stat().Declined; n != 64 {
		t.Errorf("%d blocks declined", n)
	}
	r.disk.SetFaults(sim.Plan{})
	eventually(t, "the drive gets another chance", func() bool { return ns.Match(keys(0, 64), worth).Prefix == 64 })
	c.Close()
	r.stop()
}

// TestWorthByModel: a client that knows nothing of compute times asks by what the daemon
// knows: the roofline of the descriptor's model on the configured GPU, the operator's number
// before that, and nothing where both are unknown. A get that may take no longer than computing is
// late on a slow drive.
func TestWorthByModel(t *testing.T) {
	r := newSimRig(t)
	r.store.CapacityBytes = 256 << 20
	r.options.GPU = "H200"
	r.options.Namespaces = map[string]node.NamespaceRule{"numbered": {ComputePerToken: time.Hour}}
	r.start()
	c := r.dial()
	openModel := func(name, model string) *client.Namespace {
		ns, err := c.Namespace(t.Context(), engine.Descriptor{Name: name, Model: model, TokensPerBlock: 16, BlockBytes: blockBytes}, "")
		must(t, err)
		return ns
	}
	known, numbered, unknown := openModel("a", "meta-llama/Llama-3.1-8B-Instruct"), openModel("numbered", "Llama-3.1-8B"), openModel("b", "abacus")
	all, rows := []*client.Namespace{known, numbered, unknown}, newPool(t, c, 64)
	worth := client.MatchOptions{Worth: true}
	for _, ns := range all {
		rows.put(ns, 0, 64, client.Stored)
	}
	if m := known.Match(keys(0, 64), worth); m.Prefix != 64 {
		t.Errorf("unmeasured: %+v", m)
	}
	// 1,024 tokens are computed in about 26 ms; one read takes a fifth of a second.
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 200 * time.Millisecond})
	for range 4 {
		rows.get(known, 0, 64, client.Hit)
	}
	for i, want := range []int{0, 64, 64} {
		if m := all[i].Match(keys(0, 64), worth); m.Prefix != want {
			t.Errorf("namespace %d, from a slow drive: %+v, want prefix %d", i, m, want)
		}
	}
	late := known.Get(rows.blocks(0, 64), client.GetOptions{Worth: true})
	wantAll(t, late.Wait(), client.Late)
	<-late.Released()
	wantAll(t, unknown.Get(rows.blocks(0, 64), client.GetOptions{Worth: true}).Wait(), client.Hit)
	st := r.node.Stat()
	for i, want := range []string{"model", "", "namespace"} { // by name
		if got := st.Spaces[i].ComputeFrom; got != want {
			t.Errorf("compute time of %s is from %q, want %q", st.Spaces[i].Name, got, want)
		}
	}
	if n := st.Spaces[0].ComputeTokenNS; n < 10e3 || n > 100e3 || st.Spaces[0].Declined != 64 {
		t.Errorf("%+v", st.Spaces[0])
	}
	if rates := st.Drives[0].ReadRates; len(rates) != 1 || rates[0].BlockBytes != blockBytes || rates[0].Depth != 64 {
		t.Errorf("%+v", rates)
	}
	o := r.node.Options()
	o.GPU, o.ComputePerToken = "", time.Nanosecond
	must(t, r.node.Update(o))
	if m := unknown.Match(keys(0, 64), worth); m.Prefix != 0 {
		t.Errorf("a number for all: %+v", m)
	}
	c.Close()
	r.stop()
}

// TestWorthFromMemory: what is in the memory tier is worth its load however slow the
// drive is.
func TestWorthFromMemory(t *testing.T) {
	r := newSimRig(t)
	r.options.Memory = newTier(t, tier.Options{Bytes: 8 << 20})
	r.start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 64)
	rows.put(ns, 0, 64, client.Stored)
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 50 * time.Millisecond})
	for range 4 {
		rows.get(ns, 0, 64, client.Hit)
	}
	worth := client.MatchOptions{Compute: 10 * time.Microsecond}
	if m := ns.Match(keys(0, 64), worth); m.Prefix != 0 {
		t.Errorf("from a slow drive: %+v", m)
	}
	if n := ns.Prefetch(0, keys(0, 64)); n != 64 {
		t.Fatalf("%d blocks begun", n)
	}
	r.settle()
	eventually(t, "all of it is in memory", func() bool {
		first, second := ns.Match(keys(0, 64), worth), ns.Match(keys(0, 64), worth) // one alone may be a probe
		return first.Prefix == 64 && second.Prefix == 64
	})
	c.Close()
	r.stop()
}
