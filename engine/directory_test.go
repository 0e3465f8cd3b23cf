package engine_test

import (
	"bytes"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// directoryWrites counts writes behind the slots of segments of 64 KiB with
// blocks of 4096 bytes: a header, 14 slots, one page.
type directoryWrites struct {
	device.Device
	mu sync.Mutex
	n  map[string]int
}

const (
	pageOffset = 4096 + 14*4096
	fileBytes  = pageOffset + 4096
)

func (d *directoryWrites) Submit(ops []*device.Op) {
	for _, op := range ops {
		if op.Kind == device.Write && isSegment(op.File.Name()) && op.Offset == pageOffset && op.Bufs[0][4] == 'S' {
			d.mu.Lock()
			d.n[op.File.Name()]++
			d.mu.Unlock()
		}
	}
	d.Device.Submit(ops)
}

// TestDirectoryIsWritten: when a segment is full, when half of it has changed,
// after a deletion, and at a close; and not by a store that only looks.
func TestDirectoryIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		writes := &directoryWrites{n: map[string]int{}}
		r.wrap = func(d device.Device) device.Device { writes.Device = d; return writes }
		took := func(want int, when string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			writes.mu.Lock()
			defer writes.mu.Unlock()
			got := 0
			for _, n := range writes.n {
				got += n
			}
			if got != want {
				t.Errorf("%s: %d directories were written, want %d: %v", when, got, want, writes.n)
			}
			clear(writes.n)
		}
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 6)...), engine.Stored)
		took(0, "less than half of a segment")
		all(t, put(t, ns, engine.PutOptions{}, sequence(6, 1)...), engine.Stored)
		took(1, "half of a segment")
		all(t, put(t, ns, engine.PutOptions{}, sequence(7, 8)...), engine.Stored)
		took(1, "a full one")
		time.Sleep(20 * time.Second)
		if _, err := ns.Delete([]engine.Key{key(1)}); err != nil {
			t.Fatal(err)
		}
		took(1, "a deletion")
		mustClose(t, s)
		took(1, "a close: the second segment")
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		all(t, get(t, ns, 0, 2), engine.Hit)
		took(0, "a second run")
		mustClose(t, s)
		took(0, "and its close")
		for _, name := range r.disk.Names() {
			if b, err := r.disk.Bytes(name); isSegment(name) && (err != nil || len(b) != fileBytes) {
				t.Errorf("%s has %d bytes, want %d: %v", name, len(b), fileBytes, err)
			}
		}
	})
}

// TestDirectoryNamesAll: a directory names the keys of blocks just put, of blocks from
// before the last open, and of both.
func TestDirectoryNamesAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		var s *engine.Store
		for i, blocks := range [][]int{sequence(0, 5), sequence(5, 9), nil} {
			s = r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			if blocks == nil { // all from the index: a deletion makes the directory outdated
				if n, err := ns.Delete([]engine.Key{key(3)}); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			all(t, put(t, ns, engine.PutOptions{}, blocks...), engine.Stored)
			time.Sleep(15 * time.Second)
			mustClose(t, s)
			want := map[string]bool{}
			for n := range []int{5, 14, 14}[i] {
				if n != 3 || blocks != nil {
					want[string(key(n).Bytes)] = true
				}
			}
			if got := r.directoryKeys("seg-00000001"); !maps.Equal(got, want) {
				t.Fatalf("run %d: %d keys are named, want %d: %v", i, len(got), len(want), got)
			}
		}
	})
}

// directoryKeys lists the keys that the directory of a segment of 14 slots names.
func (r *rig) directoryKeys(name string) map[string]bool {
	r.t.Helper()
	b, err := r.disk.Bytes(name)
	must(r.t, err)
	facts := engine.InspectSegment(b, nil, int64(len(b)), 1)
	keys := map[string]bool{}
	for page := range engine.InspectDirectory(bytes.NewReader(b), int64(len(b)), &facts) {
		for _, e := range page.Entries {
			keys[string(e.Key)] = true
		}
	}
	return keys
}

// TestDirectoryCannotBeWritten: that costs a counter and nothing else, and puts do
// not wait for a directory that is stuck.
func TestDirectoryCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		faulty := &faultyPages{}
		r.wrap = func(d device.Device) device.Device { faulty.Device = d; return faulty }
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		faulty.fail.Store(true)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 14)...), engine.Stored)
		time.Sleep(5 * time.Second)
		st := s.Stat()
		if st.Counters.DirectoryErrors == 0 || st.Health != "ok" || st.Counters.WriteErrors != 0 {
			t.Errorf("%+v", st)
		}
		faulty.fail.Store(false)
		faulty.slow.Store(int64(time.Minute))
		time.Sleep(15 * time.Second)
		began := time.Now()
		all(t, put(t, ns, engine.PutOptions{}, sequence(20, 100)...), engine.Stored)
		all(t, get(t, ns, sequence(20, 100)...), engine.Hit)
		if d := time.Since(began); d > time.Second {
			t.Errorf("puts and gets took %v beside a directory that is stuck", d)
		}
		faulty.slow.Store(0)
		mustClose(t, s)
		r.loseIndex(true)
		if report := r.rebuild(); report.Restored != 114 {
			t.Errorf("%+v", report)
		}
	})
}

// faultyPages fails or delays the writes of directories.
type faultyPages struct {
	device.Device
	fail atomic.Bool
	slow atomic.Int64 // ns
}

func (d *faultyPages) Submit(ops []*device.Op) {
	var rest []*device.Op
	for _, op := range ops {
		page := op.Kind == device.Write && isSegment(op.File.Name()) && op.Offset == pageOffset && op.Bufs[0][4] == 'S'
		switch {
		case page && d.fail.Load():
			op.Err = fmt.Errorf("no page today")
			go op.Done(op)
		case page && d.slow.Load() > 0:
			time.AfterFunc(time.Duration(d.slow.Load()), func() { d.Device.Submit([]*device.Op{op}) })
		default:
			rest = append(rest, op)
		}
	}
	if len(rest) > 0 {
		d.Device.Submit(rest)
	}
}

// TestRebuildWithoutNames: a key that found no room in the directory is lost, its
// block is not: it is served, listed without a key, and deleted.
func TestRebuildWithoutNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		const n = 28
		long := func(i int) engine.Key {
			return engine.Key{Group: 3, Bytes: append(bytes.Repeat([]byte("long "), 200), byte(i))}
		}
		items := make([]engine.PutItem, n)
		for i := range items {
			items[i] = engine.PutItem{Key: long(i), Src: [][]byte{content(i, 4096)}}
		}
		must(t, ns.Put(items, engine.PutOptions{}))
		mustClose(t, s)
		for range 2 { // and once more, of blocks without names
			r.loseIndex(true)
			report := r.rebuild()
			if report.Restored != n || report.Unnamed == 0 || report.Unnamed == n {
				t.Fatalf("%+v", report)
			}
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 4096)
			unnamed, listed := 0, 0
			must(t, ns.List(func(e engine.Entry) bool {
				listed++
				if len(e.Key.Bytes) == 0 {
					unnamed++
				}
				return true
			}))
			if unnamed != report.Unnamed || listed != n {
				t.Errorf("%d of %d listed without a key, want %d of %d", unnamed, listed, report.Unnamed, n)
			}
			for i := range n {
				got := []engine.GetItem{{Key: long(i), Dst: [][]byte{make([]byte, 4096)}}}
				must(t, ns.Get(got, engine.GetOptions{}))
				if got[0].Status != engine.Hit || !bytes.Equal(got[0].Dst[0], content(i, 4096)) {
					t.Errorf("block %d: %v", i, got[0].Status)
				}
			}
			mustClose(t, s)
			if report, faults := r.check(engine.CheckOptions{}); report.Damage > 0 {
				t.Errorf("%s", show(faults))
			}
		}
		s = r.open(engine.Options{})
		ns = namespace(t, s, "a", 4096)
		for i := range n {
			if got, err := ns.Delete([]engine.Key{long(i)}); got != 1 || err != nil {
				t.Errorf("deleting %d: %d, %v", i, got, err)
			}
		}
		mustClose(t, s)
	})
}

// TestMirrorFlips: the copy of the header, beside the file, is checked too.
func TestMirrorFlips(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(small(engine.Options{}))
		all(t, put(t, namespace(t, s, "a", 4096), engine.PutOptions{}, 0), engine.Stored)
		mustClose(t, s)
		flip := func(at int) {
			r.offline(func(dev device.Device) {
				f, err := dev.Open("seg-00000001")
				must(t, err)
				mirror, err := f.Attr("header")
				must(t, err)
				mirror[at] ^= 8
				must(t, f.SetAttr("header", mirror))
				must(t, f.Close())
			})
		}
		for at := range 128 {
			flip(at)
			if report, faults := r.check(engine.CheckOptions{}); report.Damage != 1 || report.Read != 1 {
				t.Errorf("byte %d: %+v\n%s", at, report, show(faults))
			}
			flip(at)
		}
		r.silent("after")
	})
}
