package engine_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
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

// countedPolicy tells of its end.
type countedPolicy struct {
	evict.Policy
	living *int
}

func (p countedPolicy) Free() { *p.living--; evict.Free(p.Policy) }

// TestDropFreesPolicy: dropping a namespace gives back the memory of its eviction
// order, which has the size that the namespace once had. A model update drops one
// namespace after the other, whose records stay for ever.
func TestDropFreesPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made, living := 0, 0
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{NewPolicy: func(most int) evict.Policy {
			made++
			living++
			return countedPolicy{evict.NewLRU(most), &living}
		}}))
		ns := namespace(t, s, "a", 4096)
		for n := range 5 {
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
			must(t, ns.Drop())
			if made != n+2 || living != 1 {
				t.Fatalf("after %d drops %d policies were made, %d live", n+1, made, living)
			}
		}
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
		all(t, get(t, ns, sequence(0, 20)...), engine.Hit)
		mustClose(t, s)
		if living != 0 {
			t.Fatalf("%d policies live after the end", living)
		}
	})
}
