package engine_test

import (
	"errors"
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

// TestFullLog: blocks that were written and that a full log has no room for give
// back their transfers, whether the put waits or not: a full log is not taken for
// a sick drive, and the store is as before when there is room again.
func TestFullLog(t *testing.T) {
	const batch = 16
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		index := &fullFS{}
		r.wrapIndex = func(fs vfs.FS) vfs.FS { index.FS = fs; return index }
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		n := 0
		// fill puts until the log is full, and returns how many blocks of the last
		// batch it refused.
		fill := func(po engine.PutOptions) (refused int) {
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
					return refused
				}
				time.Sleep(time.Millisecond) // slots are freed meanwhile
			}
			t.Fatal("the log does not fill up")
			return 0
		}
		index.full.Store(true)
		for _, po := range []engine.PutOptions{{DropIfBusy: true}, {}, {DropIfBusy: true}} {
			if refused := fill(po); refused < 2 {
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
