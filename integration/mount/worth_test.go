package mount

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine/device/sim"
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
