package engine_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// rig is a simulated machine: a disk and the index's file system, which
// outlive the processes (stores) that use them.
type rig struct {
	t    testing.TB
	disk *sim.Disk
	fs   *vfs.MemFS
	rng  *rand.Rand
	wrap func(device.Device) device.Device // may be nil

	wrapIndex func(vfs.FS) vfs.FS // may be nil

	session device.Device // of the newest open
}

func newRig(t testing.TB, c sim.Config) *rig {
	return &rig{t: t, disk: sim.NewDisk(c), fs: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(c.Seed, 77))}
}

// small is the size of most stores here: some thirty segments of 64 KiB.
func small(o engine.Options) engine.Options {
	if o.CapacityBytes == 0 {
		o.CapacityBytes = 4 << 20
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 10
	}
	return o
}

func (r *rig) tryOpen(o engine.Options) (*engine.Store, error) {
	dev, err := r.disk.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	r.session = dev
	if r.wrap != nil {
		dev = r.wrap(dev)
	}
	o.Device, o.IndexFS = dev, r.fs
	if o.Policy == nil {
		o.Policy = evict.NewLRU // whose order tests can foretell; those of policies say which
	}
	if r.wrapIndex != nil {
		o.IndexFS = r.wrapIndex(r.fs)
	}
	return engine.Open(o)
}

func (r *rig) open(o engine.Options) *engine.Store {
	r.t.Helper()
	s, err := r.tryOpen(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { // only for a test that failed before its end
		r.disk.SetFaults(sim.Plan{})
		_ = s.Close()
	})
	return s
}

// kill ends the store's process: what it has written stays.
func (r *rig) kill(s *engine.Store) { r.crash(s, false, 100) }

// powerCut ends the machine: what was not synced may be lost.
func (r *rig) powerCut(s *engine.Store) { r.crash(s, true, 50*r.rng.IntN(2)) }

func (r *rig) crash(s *engine.Store, power bool, indexKeptPercent int) {
	if power {
		r.disk.PowerCut()
	} else {
		r.disk.Kill()
	}
	r.cloneIndex(indexKeptPercent)
	if s != nil {
		_ = s.Close() // only to end its goroutines
	}
}

func (r *rig) cloneIndex(keptPercent int) {
	r.fs = r.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keptPercent, RNG: r.rng})
}

// offline lets f change the medium while no store has it open.
func (r *rig) offline(f func(device.Device)) {
	r.t.Helper()
	dev, err := r.disk.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	f(dev)
	if err := dev.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// bubble runs f with virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func namespace(t testing.TB, s *engine.Store, name string, blockBytes int) *engine.Namespace {
	t.Helper()
	ns, err := s.Namespace(engine.Descriptor{Name: name, BlockBytes: blockBytes})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func mustClose(t testing.TB, s *engine.Store) {
	t.Helper()
	if err := s.CheckSlots(); err != nil {
		t.Error(err)
	}
	noFrames(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// noFrames wants every frame back. One may come back a moment after the answer.
func noFrames(t testing.TB, s *engine.Store) {
	t.Helper()
	for range 1 << 20 {
		if s.Stat().FramesInUse == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("%d frames in use at rest", s.Stat().FramesInUse)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error, parts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q does not say %q", err, p)
		}
	}
}

// places lists where the blocks lie, by number of block. It needs a bubble: the
// durable index follows the log a little later.
func places(t testing.TB, ns *engine.Namespace, blocks ...int) map[int]engine.Place {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	found := map[int]engine.Place{}
	must(t, ns.List(func(e engine.Entry) bool {
		for _, n := range blocks {
			if bytes.Equal(key(n).Bytes, e.Key.Bytes) && e.Key.Group == 0 {
				found[n] = e.Place
			}
		}
		return true
	}))
	if len(found) != len(blocks) {
		t.Fatalf("%d of %d blocks are listed", len(found), len(blocks))
	}
	return found
}

// at is the file and the offset of a place.
func at(p engine.Place, slotBytes int) (name string, offset int64) {
	name, _, _ = strings.Cut(p.String(), "/")
	return name, 4096 + int64(p.Slot())*int64(slotBytes)
}

func isSegment(name string) bool { return strings.HasPrefix(name, "seg-") }
func isLog(name string) bool     { return strings.HasPrefix(name, "wal-") }

// counting counts the reads of blocks.
type counting struct {
	device.Device
	reads atomic.Int64
}

func (c *counting) Submit(ops []*device.Op) {
	for _, op := range ops {
		if op.Kind == device.Read && isSegment(op.File.Name()) && op.Offset > 0 {
			c.reads.Add(1)
		}
	}
	c.Device.Submit(ops)
}

// count counts the transfers of the rig's later sessions.
func (r *rig) count() *counting {
	c := &counting{}
	r.wrap = func(d device.Device) device.Device { c.Device = d; return c }
	return c
}
