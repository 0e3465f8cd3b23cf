package engine_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// unreadable answers EIO to reads that touch one of its places.
type unreadable struct {
	device.Device
	places []spot
}

func (u *unreadable) Submit(ops []*device.Op) {
	for _, op := range ops {
		bad := op.Kind == device.Read && slices.ContainsFunc(u.places, func(p spot) bool {
			end := op.Offset
			for _, b := range op.Bufs {
				end += int64(len(b))
			}
			return p.name == op.File.Name() && op.Offset <= p.offset && p.offset < end
		})
		if !bad {
			u.Device.Submit([]*device.Op{op})
			continue
		}
		op.N, op.Err = 0, syscall.EIO
		op.Done(op)
	}
}

// TestDeletionAtADamagedEnd: the record of an acknowledged deletion is the last one
// of the log. Whatever makes it disappear, and whatever happens to the file that
// knows of it, as long as one of the two is only damaged and not a lie, the
// deleted block does not come back.
func TestDeletionAtADamagedEnd(t *testing.T) {
	witness := spot{"DELETES", 0}
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{SyncInterval: time.Hour}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, sequence(0, 20)...), engine.Stored)
		before := r.logState()
		if n, err := ns.Delete(keysOf(3)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		end := changed(before, r.logState())
		r.crash(s, true, 0)
		disk, fs := r.disk, r.fs
		for _, trouble := range []struct {
			what    string
			flips   []spot
			removed []string
			eio     []spot
		}{
			{what: "sound"},
			{what: "flip at the end", flips: end},
			{what: "unreadable end", eio: end},
			{what: "flip in the witness", flips: []spot{witness}},
			{what: "unreadable witness", eio: []spot{witness}},
			{what: "no witness", removed: []string{"DELETES"}},
			{what: "flips in both", flips: append([]spot{witness}, end...)},
			{what: "both unreadable", eio: append([]spot{witness}, end...)},
			{what: "flip at the end, unreadable witness", flips: end, eio: []spot{witness}},
			{what: "flip in the witness, unreadable end", flips: []spot{witness}, eio: end},
			{what: "flip at the end, no witness", flips: end, removed: []string{"DELETES"}},
			{what: "unreadable end, no witness", eio: end, removed: []string{"DELETES"}},
		} {
			r.disk, r.fs = disk.Clone(), fs.CrashClone(vfs.CrashCloneCfg{})
			for _, f := range trouble.flips {
				must(t, r.disk.FlipBit(f.name, f.offset+40, 2))
			}
			r.offline(func(dev device.Device) {
				for _, name := range trouble.removed {
					must(t, dev.Remove(name))
				}
			})
			r.wrap = func(dev device.Device) device.Device { return &unreadable{dev, trouble.eio} }
			for range 3 { // the first open is the one that meets it; the answer stays
				s := r.open(engine.Options{SyncInterval: time.Hour})
				ns := namespace(t, s, "a", 4096)
				if get(t, ns, 3)[0] == engine.Hit {
					t.Errorf("%s: the deleted block came back", trouble.what)
				}
				r.wrap = nil
				r.crash(s, true, 100)
			}
		}
	})
}
