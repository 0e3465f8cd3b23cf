package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// slowStoreFile takes its time to replace the store file.
type slowStoreFile struct {
	device.Device
	pause time.Duration
}

func (d *slowStoreFile) WriteFile(name string, b []byte) error {
	time.Sleep(d.pause)
	return d.Device.WriteFile(name, b)
}

// TestDropAwaitsUnlinking: the keeper comes across the segments of a namespace
// that is being dropped and has to wait for a read of one; the drop still returns
// only when their files are gone.
func TestDropAwaitsUnlinking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		slow := &slowStoreFile{}
		r.wrap = func(d device.Device) device.Device { slow.Device = d; return slow }
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 5)...), engine.Stored)
		r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 10 * time.Second})
		released := make(chan struct{})
		items := getItems(4096, true, 1)
		must(t, ns.Get(items, engine.GetOptions{Deadline: time.Now().Add(time.Millisecond), Released: func(int) { close(released) }}))
		all(t, []engine.Status{items[0].Status}, engine.Late)
		slow.pause = 3 * time.Second // some looks of the keeper
		must(t, ns.Drop())
		for _, name := range r.disk.Names() {
			if isSegment(name) {
				t.Errorf("%s is there after the drop", name)
			}
		}
		<-released
		mustClose(t, s)
	})
}
