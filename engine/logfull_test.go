package engine_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/wal"
)

// fullFS has no room for new tables of the index while full.
type fullFS struct {
	vfs.FS
	full atomic.Bool
}

func (f *fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() && strings.HasSuffix(name, ".sst") {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(name, c)
}

// fillLog puts batches of blocks with long keys, from key n on, until the log is full. It
// returns the next key and how many blocks of the last batch the log refused.
func fillLog(t *testing.T, ns *engine.Namespace, n int, po engine.PutOptions) (next, refused int) {
	t.Helper()
	const batch = 16
	for range 500 {
		items := putItems(4096, sequence(n, batch)...)
		for i := range items {
			items[i].Key = longKey(n+i, engine.KeyMaxBytes)
		}
		n += batch
		refused = 0
		must(t, ns.Put(items, po))
		for i := range items {
			if errors.Is(items[i].Err, wal.ErrFull) {
				refused++
			}
		}
		if refused >= 2 { // a single one may just miss the log's end
			return n, refused
		}
		time.Sleep(time.Millisecond) // slots are freed meanwhile
	}
	t.Fatal("the log does not fill up")
	return n, 0
}

// fullLogRig is a rig whose index can be kept from getting durable, so that the log fills.
func fullLogRig(t *testing.T) (*rig, *fullFS) {
	r, index := newRig(t, sim.Config{}), &fullFS{}
	r.wrapIndex = func(fs vfs.FS) vfs.FS { index.FS = fs; return index }
	return r, index
}

// TestFullLog: blocks that were written and that a full log has no room for give
// back their transfers, whether the put waits or not: a full log is not taken for
// a sick drive, and the store is as before when there is room again.
func TestFullLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, index := fullLogRig(t)
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		n, refused := 0, 0
		index.full.Store(true)
		for _, po := range []engine.PutOptions{{DropIfBusy: true}, {}, {DropIfBusy: true}} {
			if n, refused = fillLog(t, ns, n, po); refused < 2 {
				t.Fatalf("%+v: %d blocks were refused, the test needs more", po, refused)
			}
			if st := s.Stat(); st.Health != "ok" || st.Counters.SickPeriods != 0 {
				t.Fatalf("%+v: %s: %s", po, st.Health, st.HealthCause)
			}
			must(t, s.CheckSlots())
		}
		time.Sleep(time.Minute)
		health(t, s, "ok")
		index.full.Store(false)
		time.Sleep(time.Minute)
		all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, 1, 2, 3), engine.Stored)
		all(t, get(t, ns, 1, 2, 3), engine.Hit)
		if st := s.Stat(); st.Counters.SickPeriods != 0 {
			t.Errorf("%d sick periods", st.Counters.SickPeriods)
		}
		mustClose(t, s)
	})
}

// TestDropWithAFullLog: a namespace that is dropped while the log has no room is empty at
// once, and those who watch events learn of it when there is room: before they hear of
// blocks put after it. The same with evictions and deletions.
func TestDropWithAFullLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, index := fullLogRig(t)
		s := r.open(small(engine.Options{}))
		spaces := []*engine.Namespace{namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)}
		m := &mirror{blocks: map[string]bool{}}
		s.Watch(m.take)
		for _, ns := range spaces {
			put(t, ns, engine.PutOptions{}, sequence(100, 20)...)
		}
		must(t, spaces[1].SetQuota(1<<20)) // it takes nothing from the other
		index.full.Store(true)
		n, _ := fillLog(t, spaces[1], 1000, engine.PutOptions{DropIfBusy: true})
		other := namespace(t, s, "other", 4096)
		for range 600 { // until there is no room for a record of this size either
			must(t, other.Drop())
		}
		for range 2 { // the second drop finds one owed
			must(t, spaces[0].Drop())
			all(t, get(t, spaces[0], sequence(100, 20)...), engine.Miss)
		}
		fillLog(t, spaces[0], n, engine.PutOptions{DropIfBusy: true})
		_, err := spaces[1].Delete([]engine.Key{key(100), key(101)})
		t.Logf("a deletion meanwhile: %v", err)
		index.full.Store(false)
		time.Sleep(time.Minute)
		all(t, put(t, spaces[0], engine.PutOptions{}, sequence(110, 20)...), engine.Stored)
		must(t, s.Settle())
		got, want := m.names(), present(t, spaces)
		if !slices.Equal(got, want) {
			t.Errorf("events say %d blocks, the store has %d", len(got), len(want))
		}
		mustClose(t, s)
	})
}
