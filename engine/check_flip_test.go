package engine_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// flipSpots lists the bytes of a closed store that mean something: name to
// offsets, each class thinned to every nth byte.
func flipSpots(t *testing.T, r *rig, nth int, places map[int]engine.Place) map[string][]int64 {
	t.Helper()
	spots := map[string][]int64{}
	add := func(name string, from, to, step int64) {
		for at := from; at < to; at += step {
			spots[name] = append(spots[name], at)
		}
	}
	n := int64(nth)
	for _, name := range r.disk.Names() {
		raw, err := r.disk.Bytes(name)
		must(t, err)
		switch {
		case isSegment(name):
			add(name, 0, 128, 1)
			add(name, 128, 4096, 9*n)
			for at := len(raw) - 8192; at < len(raw); at += 4096 { // the directory
				if used := len(strings.TrimRight(string(raw[at:]), "\x00")); used > 0 {
					add(name, int64(at), int64(at+used), n)
					add(name, int64(at+used), int64(at+4096), 9*n)
				}
			}
		case isLog(name):
			for at := int64(0); at < int64(len(raw)); at += 4096 {
				unit := raw[at : at+4096]
				if live := at == 0 && string(unit[:8]) == "SPILLWAL" || string(unit[4:8]) == "SWF1"; live {
					add(name, at, at+90, 1)
					add(name, at+90, at+4096, 17*n)
				}
			}
		case name == "SPILLWAY":
			add(name, 0, int64(len(raw)), n)
		case name == "DELETES":
			add(name, 0, 48, 1)
			add(name, 48, 4096, 17*n)
		}
	}
	for _, p := range places {
		name, offset := at(p, 4096)
		add(name, offset, offset+4096, 97*n)
	}
	return spots
}

// TestEveryFlip: one flipped bit, anywhere in what means something, is found by a
// check; the store opens nevertheless, or refuses, and answers nothing wrong.
func TestEveryFlip(t *testing.T) {
	nth, opened := 7, 0
	if os.Getenv("SPILLWAY_LONG") != "" {
		nth = 1
	} else if testing.Short() {
		nth = 31
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(engine.Options{CapacityBytes: 3 << 20, SegmentBytes: 256 << 10})
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 70)...), engine.Stored)
		if _, err := ns.Delete([]engine.Key{key(5)}); err != nil {
			t.Fatal(err)
		}
		p := places(t, ns, sequence(0, 5)...)
		mustClose(t, s)
		r.silent("before")
		spots := flipSpots(t, r, nth, p)
		began, checks := time.Now(), 0
		for i, name := range slices.Sorted(maps.Keys(spots)) {
			for j, at := range spots[name] {
				bit := uint(at+int64(i)) % 8
				must(t, r.disk.FlipBit(name, at, bit))
				report, faults := r.check(engine.CheckOptions{})
				checks++
				if report.Damage == 0 {
					t.Errorf("%s, byte %d, bit %d: not found\n%s", name, at, bit, show(faults))
				}
				if j%(7*nth) == 0 {
					opened++
					r.opensRight(name, at)
				}
				must(t, r.disk.FlipBit(name, at, bit))
				if t.Failed() && checks > 2000 {
					return
				}
			}
		}
		r.silent("after")
		for _, name := range slices.Sorted(maps.Keys(spots)) {
			t.Logf("%s: %d bytes", name, len(spots[name]))
		}
		t.Logf("%d flips, %d openings, virtual time %v", checks, opened, time.Since(began))
	})
}

// opensRight opens a copy of a damaged store: it refuses with the error of the
// store file, or answers every block exactly or not at all.
func (r *rig) opensRight(name string, at int64) {
	r.t.Helper()
	disk, fs := r.disk, r.fs
	defer func() { r.disk, r.fs = disk, fs }()
	r.disk = disk.Clone()
	r.fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r.rng})
	s, err := r.tryOpen(engine.Options{})
	if err != nil {
		if name != "SPILLWAY" && !strings.HasPrefix(name, "index/") ||
			!errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrNotAStore) && !errors.Is(err, engine.ErrVersion) {
			r.t.Errorf("%s, byte %d: %v", name, at, err)
		}
		return
	}
	ns := namespace(r.t, s, "a", 4096)
	got := get(r.t, ns, sequence(0, 70)...) // compares the bytes of hits
	if got[5] == engine.Hit {
		r.t.Errorf("%s, byte %d: the deleted block came back", name, at)
	}
	must(r.t, s.Close())
}

// flipIndex flips one bit of a file of the index.
func (r *rig) flipIndex(name string, at int) {
	r.t.Helper()
	f, err := r.fs.Open(name)
	must(r.t, err)
	raw, err := io.ReadAll(f)
	must(r.t, errors.Join(err, f.Close()))
	raw[at] ^= 1 << (at % 8)
	w, err := r.fs.Create(name, vfs.WriteCategoryUnspecified)
	must(r.t, err)
	_, err = w.Write(raw)
	must(r.t, errors.Join(err, w.Sync(), w.Close()))
}

// TestIndexFlips: the same for the files of the index that are in use. The file
// OPTIONS has no checksum and is not covered.
func TestIndexFlips(t *testing.T) {
	nth := 7
	if os.Getenv("SPILLWAY_LONG") != "" {
		nth = 1
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: 1})
		s := r.open(engine.Options{CapacityBytes: 3 << 20, SegmentBytes: 256 << 10})
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 70)...), engine.Stored)
		if _, err := ns.Delete([]engine.Key{key(5)}); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		r.silent("before")
		names, err := r.fs.List("index")
		must(t, err)
		manifest := ""
		for _, name := range names {
			if _, of, ok := strings.Cut(name, "marker.manifest."); ok {
				manifest = of[strings.Index(of, ".")+1:]
			}
		}
		for i, name := range names {
			if name != manifest && !strings.HasSuffix(name, ".sst") {
				t.Logf("not covered: %s", name)
				continue
			}
			path := "index/" + name
			info, err := r.fs.Stat(path)
			must(t, err)
			for j := i % nth; j < int(info.Size()); j += nth {
				r.flipIndex(path, j)
				if report, faults := r.check(engine.CheckOptions{}); report.Damage == 0 {
					t.Errorf("%s, byte %d of %d: not found\n%s", path, j, info.Size(), show(faults))
				}
				if j%(5*nth) == i%nth {
					r.opensRight(path, int64(j))
				}
				r.flipIndex(path, j)
			}
			t.Logf("%s: every %d. of %d bytes", path, nth, info.Size())
		}
		r.silent("after")
	})
}
