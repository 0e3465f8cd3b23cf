package work

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// prove reads blocks of the file Dir past the page cache, one after the other, and
// hashes each as the store does. Only the hashing counts, in CPUSeconds: what
// proving memory costs that the drive has just written, and no cache holds.
func (j *Job) prove(ctx context.Context) (Sample, error) {
	f, err := openDirect(j.Dir)
	if err != nil {
		return Sample{}, err
	}
	defer f.Close()
	buffers := max(16*j.BlockBytes, hugePageBytes)
	arena, err := offheap.Make[byte](buffers)
	if err != nil {
		return Sample{}, err
	}
	defer arena.Free()
	runtime.LockOSThread() // whose time is taken
	defer runtime.UnlockOSThread()
	rng := rand.New(rand.NewPCG(j.Seed, 0))
	var s Sample
	var sum uint64
	for end := time.Now().Add(j.Runtime); time.Now().Before(end); s.Ops++ {
		block := arena.Slice()[(int(s.Ops)*j.BlockBytes)%buffers:][:j.BlockBytes]
		if _, err := f.ReadAt(block, int64(rng.IntN(j.Blocks))*int64(j.BlockBytes)); err != nil {
			return s, err
		}
		start := threadSeconds()
		sum += xxh3.HashSeed(block, uint64(s.Ops))
		s.CPUSeconds += threadSeconds() - start
	}
	if sum == 0 { // also keeps the hashing in the program
		return s, errors.New("all hashes are 0")
	}
	return s, ctx.Err()
}
