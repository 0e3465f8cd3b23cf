package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestCheckIsSilentAfterCrashes: whatever a kill or a power cut leaves behind in
// a healthy store, at any moment of its life, is no fault.
func TestCheckIsSilentAfterCrashes(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	lost, clean := 0, 0
	for seed := range seeds {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed, MaxLatency: 3 * time.Millisecond})
			for round := range 3 {
				o := engine.Options{CapacityBytes: 3 << 20, SegmentBytes: 64 << 10, SyncInterval: 50 * time.Millisecond}
				if r.rng.IntN(4) == 0 {
					o.CapacityBytes = 4 << 20 // and lowered again at a later open
				}
				r.liveAndDie(o, time.Duration(r.rng.Int64N(int64(3*time.Second)))>>(2*r.rng.IntN(6)))
				report := r.silent(fmt.Sprintf("seed %d, round %d", seed, round))
				lost += report.Lost
				if report.Clean {
					clean++
				}
			}
		})
	}
	t.Logf("%d blocks lost to power cuts, %d closed cleanly before the end came", lost, clean)
}

// liveAndDie opens the store, works with it, and ends it after a while by a kill
// or a power cut, or closes it.
func (r *rig) liveAndDie(o engine.Options, after time.Duration) {
	r.t.Helper()
	dev, err := r.disk.Open()
	must(r.t, err)
	o.Device, o.IndexFS = dev, r.fs
	ended := make(chan *engine.Store)
	seed := r.rng.IntN(1 << 20)
	closing := r.rng.IntN(4) == 0
	go func() {
		s, err := engine.Open(o)
		if err != nil {
			ended <- nil
			return
		}
		r.work(s, seed)
		if closing {
			if s.Close() == nil {
				s = nil
			}
		}
		ended <- s
	}()
	time.Sleep(after)
	power := r.rng.IntN(2) == 0
	if power {
		r.disk.PowerCut()
	} else {
		r.disk.Kill()
	}
	kept := 100
	if power {
		kept = 50 * r.rng.IntN(2)
	}
	r.cloneIndex(kept)
	if s := <-ended; s != nil {
		_ = s.Close() // only to end its goroutines
	}
	synctest.Wait()
}

// work is a short life of a store.
func (r *rig) work(s *engine.Store, seed int) {
	for i := range 12 {
		odd := (seed + i) % 2 // one namespace leaves a part of each slot unused
		blockBytes := 4096 + 700*odd
		ns, err := s.Namespace(engine.Descriptor{Name: string(rune('a' + odd)), BlockBytes: blockBytes})
		if err != nil {
			return
		}
		step := (seed*31 + i*17) % 11
		switch {
		case step < 6:
			o := engine.PutOptions{}
			if step == 0 {
				o.Durability = engine.Durable
			}
			items := make([]engine.PutItem, 40)
			for n := range items {
				items[n] = engine.PutItem{Key: key(seed%1000 + 37*i + n), Src: [][]byte{content(seed%1000+37*i+n, blockBytes)}}
			}
			err = ns.Put(items, o)
		case step < 8:
			_, err = ns.Delete([]engine.Key{key(seed%1000 + 37*i - 20), key(1 << 20)})
		case step == 8:
			err = ns.Drop()
		case step == 9:
			err = ns.SetQuota(int64(step+i) * 128 << 10)
		default:
			time.Sleep(time.Duration(seed%7) * 100 * time.Millisecond)
		}
		if errors.Is(err, engine.ErrReadOnly) || errors.Is(err, engine.ErrClosed) {
			return
		}
	}
}
