package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// check runs a check over the rig's store, which nobody has open.
func (r *rig) check(o engine.CheckOptions) (engine.CheckReport, []engine.Fault) {
	r.t.Helper()
	dev, err := r.disk.Open()
	must(r.t, err)
	var faults []engine.Fault
	o.Device, o.IndexFS = dev, r.fs
	o.OnFault = func(f engine.Fault) { faults = append(faults, f) }
	report, err := engine.Check(r.t.Context(), o)
	must(r.t, err)
	return report, faults
}

func show(faults []engine.Fault) string {
	var b strings.Builder
	for _, f := range faults {
		slot := ""
		if f.Slot != nil {
			slot = fmt.Sprintf(" slot %d", *f.Slot)
		}
		fmt.Fprintf(&b, "%s: %s%s at %d: %s; %s\n", f.Severity, f.File, slot, f.Offset, f.What, f.Means)
	}
	return b.String()
}

// silent wants a check without a fault.
func (r *rig) silent(when string) engine.CheckReport {
	r.t.Helper()
	report, faults := r.check(engine.CheckOptions{})
	if len(faults) > 0 || report.Damage+report.Notices > 0 {
		r.t.Fatalf("%s: %+v\n%s", when, report, show(faults))
	}
	return report
}

// TestCheckIsSilent: a healthy store has no faults, closed or killed.
func TestCheckIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 100)...), engine.Stored)
		mustClose(t, s)
		report := r.silent("closed")
		if !report.Clean || report.Blocks != 100 || report.Read != 100 || report.Bytes != 100*4096 {
			t.Errorf("%+v", report)
		}
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(200, 50)...), engine.Stored)
		if _, err := ns.Delete([]engine.Key{key(3), key(999)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		r.kill(s)
		if report := r.silent("killed"); report.Clean {
			t.Errorf("%+v", report)
		}
	})
}
