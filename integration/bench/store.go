package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/histogram"
)

// subject is the store under test, full of blocks.
type subject struct {
	store  *engine.Store
	ns     *engine.Namespace
	blocks int
}

// newSubject makes a store and puts sizeBytes of blocks into it.
func newSubject(dir string, sizeBytes int64, blockBytes int) (*subject, error) {
	s, err := engine.Open(engine.Options{Dir: filepath.Join(dir, "store"), CapacityBytes: sizeBytes + sizeBytes/4 + 64<<20})
	if err != nil {
		return nil, err
	}
	ns, err := s.Namespace(engine.Descriptor{Name: "bench", BlockBytes: blockBytes})
	if err != nil {
		return nil, err
	}
	b := &subject{s, ns, int(sizeBytes / int64(blockBytes))}
	const batch = 64
	items := make([]engine.PutItem, 0, batch)
	for n := 0; n < b.blocks; n += len(items) {
		items = items[:0]
		for i := n; i < min(n+batch, b.blocks); i++ {
			data := device.AlignedBuffer(blockBytes, 4096)
			fill(data, uint64(i))
			items = append(items, engine.PutItem{Key: b.key(i), Src: [][]byte{data}})
		}
		if err := ns.Put(items, engine.PutOptions{Durability: engine.Durable}); err != nil {
			return nil, err
		}
		for i := range items {
			if items[i].Status != engine.Stored {
				return nil, fmt.Errorf("block %d: %v: %w", n+i, items[i].Status, items[i].Err)
			}
		}
	}
	return b, nil
}

// key is 32 bytes long, as offload layers have them.
func (b *subject) key(n int) engine.Key { return engine.Key{Bytes: fmt.Appendf(nil, "bench-%026d", n)} }

// read reads random blocks, depth at a time, each by a call of its own: look-up,
// direct read into the caller's memory, proof by checksum.
func (b *subject) read(depth int, runtime time.Duration, seed uint64) (sample, error) {
	var readers sync.WaitGroup
	latencies := make([]histogram.Histogram, depth)
	errs := make([]error, depth)
	began := time.Now()
	for i := range depth {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			errs[i] = b.readUntil(began.Add(runtime), rng, &latencies[i])
		})
	}
	readers.Wait()
	elapsed := time.Since(began)
	for i, err := range errs {
		if err != nil {
			return sample{}, err
		}
		if i > 0 {
			latencies[0].Merge(&latencies[i])
		}
	}
	all := latencies[0].Snapshot()
	return sample{float64(all.Count) / elapsed.Seconds(), float64(all.PercentileNS(50)), float64(all.PercentileNS(99))}, nil
}

func (b *subject) readUntil(end time.Time, rng *rand.Rand, latencies *histogram.Histogram) error {
	data := device.AlignedBuffer(b.ns.Descriptor().BlockBytes, 4096)
	items := make([]engine.GetItem, 1)
	for {
		n := rng.IntN(b.blocks)
		items[0] = engine.GetItem{Key: b.key(n), Dst: [][]byte{data}}
		began := time.Now()
		err := b.ns.Get(items, engine.GetOptions{NoTouch: true})
		ended := time.Now()
		if err != nil {
			return err
		}
		if items[0].Status != engine.Hit {
			return fmt.Errorf("block %d: %v: %w", n, items[0].Status, items[0].Err)
		}
		latencies.Record(ended.Sub(began).Nanoseconds())
		if ended.After(end) {
			return nil
		}
	}
}

// fill makes bytes that no layer can compress or share.
func fill(data []byte, n uint64) {
	rng := rand.NewPCG(n, 0x5b1)
	for ; len(data) >= 8; data = data[8:] {
		binary.LittleEndian.PutUint64(data, rng.Uint64())
	}
}
