package engine_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

func TestBadOptions(t *testing.T) {
	dir := t.TempDir()
	for name, o := range map[string]engine.Options{
		"no directory":   {CapacityBytes: 1 << 30},
		"capacity":       {Dir: dir, CapacityBytes: -1},
		"segment":        {Dir: dir, CapacityBytes: 1 << 30, SegmentBytes: 2 << 30},
		"index memory":   {Dir: dir, CapacityBytes: 1 << 30, IndexMemoryMaxBytes: 1000},
		"frames":         {Dir: dir, CapacityBytes: 1 << 30, FrameBytes: 4096},
		"depth":          {Dir: dir, CapacityBytes: 1 << 30, QueueDepth: -1},
		"queue":          {Dir: dir, CapacityBytes: 1 << 30, QueueDepth: 64, QueueOps: 63},
		"sync interval":  {Dir: dir, CapacityBytes: 1 << 30, SyncInterval: time.Microsecond},
		"lease share":    {Dir: dir, CapacityBytes: 1 << 30, LeaseShare: 1.5},
		"lease no share": {Dir: dir, CapacityBytes: 1 << 30, LeaseShare: math.NaN()},
		"lease time":     {Dir: dir, CapacityBytes: 1 << 30, LeaseMax: -1},
		"half simulated": {CapacityBytes: 1 << 30, IndexFS: newRig(t, sim.Config{}).fs},
	} {
		if s, err := engine.Open(o); err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
		} else {
			wantErr(t, err, engine.ErrConfig)
		}
	}
}

// needed finds the largest number in a message: what it would take.
func needed(t *testing.T, err error) int64 {
	t.Helper()
	var most int64
	for _, word := range strings.FieldsFunc(err.Error(), func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// TestCapacityTooSmall: the message names a capacity that is enough.
func TestCapacityTooSmall(t *testing.T) {
	for _, segment := range []int64{0, 64 << 10, 1 << 20} {
		o := engine.Options{CapacityBytes: 1 << 20, SegmentBytes: segment}
		_, err := newRig(t, sim.Config{}).tryOpen(o)
		if err == nil {
			t.Fatal("opened")
		}
		wantErr(t, err, engine.ErrConfig)
		o.CapacityBytes = needed(t, err)
		r := newRig(t, sim.Config{})
		mustClose(t, r.open(o))
		// And so when it is lowered.
		o.CapacityBytes = 1 << 20
		_, err = r.tryOpen(o)
		if err == nil {
			t.Fatal("opened")
		}
		wantErr(t, err, engine.ErrConfig)
		mustClose(t, r.open(engine.Options{}))
	}
}

// TestBlockTooLargeForCapacity: the same for a namespace's block size.
func TestBlockTooLargeForCapacity(t *testing.T) {
	for _, blockBytes := range []int{1 << 20, 1000001, 3 << 20, 64 << 20} {
		d := engine.Descriptor{Name: "a", BlockBytes: blockBytes}
		o := small(engine.Options{FrameBytes: 256 << 20})
		s := newRig(t, sim.Config{}).open(o)
		_, err := s.Namespace(d)
		if err == nil {
			t.Fatal("created")
		}
		wantErr(t, err, engine.ErrConfig, fmt.Sprint(blockBytes))
		if len(s.Stat().Namespaces) != 0 {
			t.Error("a refused namespace stays")
		}
		mustClose(t, s)
		o.CapacityBytes = needed(t, err)
		s = newRig(t, sim.Config{}).open(o)
		ns, err := s.Namespace(d)
		if err != nil {
			t.Fatalf("capacity %d as advised: %v", o.CapacityBytes, err)
		}
		if blockBytes < 64<<20 {
			all(t, put(t, ns, engine.PutOptions{}, 1, 2, 3), engine.Stored)
			all(t, get(t, ns, 1, 2, 3), engine.Hit)
		}
		mustClose(t, s)
	}
}

// TestIndexMemoryBound: block sizes whose blocks could need more are refused,
// and no change of options later leads past it.
func TestIndexMemoryBound(t *testing.T) {
	r := newRig(t, sim.Config{})
	o := small(engine.Options{CapacityBytes: 100 << 20, IndexMemoryMaxBytes: 1 << 20}) // 10922 blocks
	s := r.open(o)
	_, err := s.Namespace(engine.Descriptor{Name: "a", BlockBytes: 4096})
	if err == nil {
		t.Fatal("created")
	}
	wantErr(t, err, engine.ErrConfig, "IndexMemoryMaxBytes", "1048576", "4096")
	ns := namespace(t, s, "b", 16384)
	all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
	mustClose(t, s)
	for name, change := range map[string]engine.Options{
		"capacity":     {CapacityBytes: 1000 << 20, IndexMemoryMaxBytes: 1 << 20},
		"frame memory": {FrameBytes: 16384},
	} {
		_, err := r.tryOpen(change)
		if err == nil {
			t.Fatalf("%s: opened", name)
		}
		wantErr(t, err, engine.ErrConfig)
	}
	s = r.open(engine.Options{FrameBytes: 32768})
	all(t, get(t, namespace(t, s, "b", 16384), 1), engine.Hit)
	mustClose(t, s)
}

// TestIndexMemoryShared: namespaces that are each within the bound never need
// more together.
func TestIndexMemoryShared(t *testing.T) {
	r := newRig(t, sim.Config{})
	// 9039 blocks of index; 8-slot segments of 4 KiB blocks would hold a few
	// more than one large namespace.
	s := r.open(engine.Options{CapacityBytes: 42 << 20, SegmentBytes: 1 << 20, IndexMemoryMaxBytes: 1 << 20, SyncInterval: time.Hour})
	a, b := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
	for from := 0; from < 24000; from += 256 {
		ns := a
		if from/256%2 == 0 {
			ns = b
		}
		all(t, put(t, ns, engine.PutOptions{}, sequence(from, 256)...), engine.Stored, engine.Dropped)
	}
	st := s.Stat()
	if st.Blocks > 9039 {
		t.Errorf("%d blocks in an index for 9039", st.Blocks)
	}
	mustClose(t, s)
}

// TestRefusedCapacityLeavesNoTrace: a store that refuses a new capacity opens
// afterwards as if nobody had asked.
func TestRefusedCapacityLeavesNoTrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		capacity := s.Stat().CapacityBytes
		all(t, put(t, namespace(t, s, "a", 4096), engine.PutOptions{}, 1, 2, 3), engine.Stored)
		mustClose(t, s)
		for _, refused := range []int64{1, 100 << 40, math.MaxInt64} { // too small, and too much for the index
			_, err := r.tryOpen(engine.Options{CapacityBytes: refused})
			wantErr(t, err, engine.ErrConfig)
			s = r.open(engine.Options{})
			if got := s.Stat().CapacityBytes; got != capacity {
				t.Fatalf("capacity %d after %d was refused, want %d", got, refused, capacity)
			}
			all(t, get(t, namespace(t, s, "a", 4096), 1, 2, 3), engine.Hit)
			mustClose(t, s)
		}
	})
}
