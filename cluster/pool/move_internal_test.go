package pool

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestHotTake: whatever waits to be copied here is taken in its order, once, of one namespace
// at a time, and as much as its memory may be.
func TestHotTake(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var h hotReads
		h.most.Store(1)
		n := uint64(0)
		for range 20 {
			of := Of{Incarnation: rng.Uint32N(3), BlockBytes: 4096 << rng.IntN(15)}
			reads := make([]HotRead, rng.IntN(200))
			for i := range reads {
				n++
				binary.LittleEndian.PutUint64(reads[i].ID[:], n*0x9e3779b97f4a7c15)
				binary.LittleEndian.PutUint64(reads[i].ID[8:], n)
			}
			if waits := h.saw(of, reads); waits != (n > 0) {
				t.Fatalf("seed %d: %d wait: %v", seed, n, waits)
			}
		}
		for taken := uint64(0); taken < n; {
			some := h.take()
			nBytes := len(some) * some[0].of.BlockBytes
			if len(some) > hotCopyMax || len(some) > 1 && nBytes > hotCopyBytes {
				t.Fatalf("seed %d: %d blocks of %d bytes at once", seed, len(some), some[0].of.BlockBytes)
			}
			for i := range some {
				if taken++; binary.LittleEndian.Uint64(some[i].ID[8:]) != taken || some[i].of != some[0].of {
					t.Fatalf("seed %d: block %d comes as number %d", seed, binary.LittleEndian.Uint64(some[i].ID[8:]), taken)
				}
			}
			h.end(some, len(some))
		}
		if st := h.stat(); h.take() != nil || st.Waiting != 0 || st.Copied != n {
			t.Fatalf("seed %d: %+v of %d", seed, st, n)
		}
	}
}

// TestPaceChanges: a rate that is changed holds for what is sent from then on.
func TestPaceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mover{}
		rng := rand.New(rand.NewPCG(1, 6))
		for range 100 {
			rate := int64(1+rng.IntN(100)) << 20
			m.bytesPerSecond.Store(rate)
			began := time.Now()
			for range 11 { // the first goes at once
				if !m.pace(context.Background(), rate/10) {
					t.Fatal("it does not wait")
				}
			}
			if took := time.Since(began); took < 990*time.Millisecond || took > 1110*time.Millisecond {
				t.Errorf("a second's bytes at %d a second take %v", rate, took)
			}
		}
	})
}
