package member

import (
	"os"
	"testing"
	"time"
)

// TestCost measures what a profile costs a node in a quiet pool of five, and how soon a node
// that is killed is found: the numbers in docs/operations.md. It asserts nothing about time and
// takes minutes, so it runs when asked for, on a machine that is not busy.
func TestCost(t *testing.T) {
	if os.Getenv("SPILLWAY_LONG") == "" {
		t.Skip("set SPILLWAY_LONG=1: it takes minutes")
	}
	for _, p := range []Profile{ProfileFast, ProfileDefault, ProfileSlow} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			keyed := func(o *Options) { o.Profile, o.tune, o.Key = p, nil, keyText(1, 32) }
			all := pool(t, 5, keyed)
			for _, g := range all {
				until(t, "all is tested", func() bool { return g.Status().Established })
			}
			time.Sleep(15 * time.Second) // what joining cost is over
			before, start := all[0].Status().Counters, time.Now()
			time.Sleep(60 * time.Second)
			after, took := all[0].Status().Counters, time.Since(start).Seconds()
			t.Logf("%s: %.1f packets out and %.1f in, %.0f bytes out and %.0f in, %.2f streams out a second", p,
				float64(after.PacketsOut-before.PacketsOut)/took, float64(after.PacketsIn-before.PacketsIn)/took,
				float64(after.PacketBytesOut-before.PacketBytesOut)/took, float64(after.PacketBytesIn-before.PacketBytesIn)/took,
				float64(after.StreamsOut-before.StreamsOut)/took)
			if after.PacketsOut <= before.PacketsOut {
				t.Error("nothing was sent")
			}
			all[4].Close()
			killed := time.Now()
			var suspect time.Duration
			until(t, "n5 has failed", func() bool {
				if h := healthOf(all[0], "n5"); h == Suspect && suspect == 0 {
					suspect = time.Since(killed)
				}
				return healthOf(all[0], "n5") == Failed
			})
			t.Logf("%s: a killed node was suspect after %v, and no member after %v", p, suspect, time.Since(killed))
		})
	}
}
