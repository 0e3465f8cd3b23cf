package work

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/histogram"
)

const (
	pageBytes     = 4096
	hugePageBytes = 2 << 20
	fillBatch     = 64
)

// fill puts Blocks blocks of importance 1, which stay, and, where it is asked for,
// as many behind them as make room for what later jobs put.
func (j *Job) fill(ctx context.Context) (Sample, error) {
	s, ns, err := j.open()
	if err != nil {
		return Sample{}, err
	}
	err = j.putBlocks(ctx, ns, 0, j.Blocks, 1)
	if slots := s.Stat().Slots; err == nil && slots < j.Blocks {
		err = fmt.Errorf("%d blocks fit, not %d", slots, j.Blocks)
	} else if err == nil && j.Full {
		err = j.putBlocks(ctx, ns, j.Blocks, slots*21/20, 0)
	}
	return Sample{Values: map[string]float64{"blocks": float64(s.Stat().Blocks)}}, errors.Join(err, s.Close())
}

func (j *Job) putBlocks(ctx context.Context, ns *engine.Namespace, from, to int, importance uint8) error {
	data := make([][]byte, fillBatch)
	for i := range data {
		data[i] = device.AlignedBuffer(j.BlockBytes, pageBytes)
	}
	items := make([]engine.PutItem, 0, fillBatch)
	for n := from; n < to; n += len(items) {
		if err := ctx.Err(); err != nil {
			return err
		}
		items = items[:0]
		for i := n; i < min(n+fillBatch, to); i++ {
			if src := data[i-n]; !j.Hollow { // a hollow store gives zeros back
				Scramble(src, uint64(i))
			}
			items = append(items, engine.PutItem{Key: key(i), Src: [][]byte{data[i-n]}, Importance: importance})
		}
		if err := ns.Put(items, engine.PutOptions{}); err != nil {
			return err
		}
		for i := range items {
			if items[i].Status != engine.Stored {
				return fmt.Errorf("block %d: %v: %w", n+i, items[i].Status, items[i].Err)
			}
		}
	}
	return nil
}

// transfer gets and puts for Runtime, Depth calls at once, Batch blocks a get and
// one a put. Latencies are of calls.
func (j *Job) transfer(ctx context.Context) (Sample, error) {
	s, ns, err := j.open()
	if err != nil {
		return Sample{}, err
	}
	batch := max(j.Batch, 1)
	buffers, free, err := j.buffers(s, j.Depth*batch)
	if err != nil {
		return Sample{}, errors.Join(err, s.Close())
	}
	defer free()
	c := &caller{job: j, ns: ns}
	c.next.Store(int64(j.First))
	sample, err := j.measure(ctx, func(worker int) (doer, error) { return c.worker(worker, buffers[worker*batch:][:batch]), nil })
	if j.ReadShare == 1 {
		sample.Ops *= float64(batch)
		sample.IOPS *= float64(batch)
	}
	return sample, errors.Join(err, s.Close())
}

// caller makes the calls of a Transfer.
type caller struct {
	job  *Job
	ns   *engine.Namespace
	next atomic.Int64 // number of the next new block
}

func (c *caller) worker(n int, data [][]byte) doer {
	rng := rand.New(rand.NewPCG(c.job.Seed, uint64(n)))
	if !c.job.Hollow {
		Scramble(data[0], c.job.Seed)
	}
	items := make([]engine.GetItem, len(data))
	return func() (read bool, err error) {
		if c.job.ReadShare < 1 && rng.Float64() >= c.job.ReadShare {
			return false, put(c.ns, int(c.next.Add(1)), data[0])
		}
		for i := range items {
			items[i] = engine.GetItem{Key: key(rng.IntN(c.job.Blocks)), Dst: [][]byte{data[i]}}
		}
		return true, get(c.ns, items)
	}
}

func get(ns *engine.Namespace, items []engine.GetItem) error {
	if err := ns.Get(items, engine.GetOptions{NoTouch: true}); err != nil {
		return err
	}
	for i := range items {
		if items[i].Status != engine.Hit {
			return fmt.Errorf("block %s: %v: %w", items[i].Key.Bytes, items[i].Status, items[i].Err)
		}
	}
	return nil
}

func getOne(ns *engine.Namespace, n int, data []byte) error {
	return get(ns, []engine.GetItem{{Key: key(n), Dst: [][]byte{data}}})
}

func put(ns *engine.Namespace, n int, data []byte) error {
	items := [1]engine.PutItem{{Key: key(n), Src: [][]byte{data}}}
	if err := ns.Put(items[:], engine.PutOptions{}); err != nil {
		return err
	}
	if items[0].Status != engine.Stored {
		return fmt.Errorf("block %d: %v: %w", n, items[0].Status, items[0].Err)
	}
	return nil
}

// doer makes one call and says whether it was a read.
type doer func() (read bool, err error)

// measure runs Depth workers for Runtime, each one call after the other.
func (j *Job) measure(ctx context.Context, worker func(int) (doer, error)) (Sample, error) {
	var running sync.WaitGroup
	reads, writes := make([]histogram.Histogram, j.Depth), make([]histogram.Histogram, j.Depth)
	errs := make([]error, j.Depth)
	doers := make([]doer, j.Depth)
	for i := range doers {
		var err error
		if doers[i], err = worker(i); err != nil {
			return Sample{}, err
		}
	}
	cpu, began := cpuSeconds(), time.Now()
	for i, do := range doers {
		running.Go(func() {
			for end := began.Add(j.Runtime); errs[i] == nil; {
				start := time.Now()
				read, err := do()
				ended := time.Now()
				if errs[i] = err; err == nil {
					errs[i] = ctx.Err()
				}
				if read {
					reads[i].Record(ended.Sub(start).Nanoseconds())
				} else {
					writes[i].Record(ended.Sub(start).Nanoseconds())
				}
				if ended.After(end) {
					return
				}
			}
		})
	}
	running.Wait()
	seconds, cpu := time.Since(began).Seconds(), cpuSeconds()-cpu
	for i := 1; i < j.Depth; i++ {
		reads[0].Merge(&reads[i])
		writes[0].Merge(&writes[i])
	}
	return sampleOf(reads[0].Snapshot(), writes[0].Snapshot(), seconds, cpu), errors.Join(errs...)
}

func sampleOf(reads, writes histogram.Snapshot, seconds, cpu float64) Sample {
	main := reads
	if reads.Count == 0 {
		main = writes
	}
	ops := float64(reads.Count + writes.Count)
	s := Sample{Ops: ops, Seconds: seconds, CPUSeconds: cpu, IOPS: ops / seconds,
		P50NS: float64(main.PercentileNS(50)), P99NS: float64(main.PercentileNS(99)), P999NS: float64(main.PercentileNS(99.9))}
	if reads.Count > 0 && writes.Count > 0 {
		s.Values = map[string]float64{"read_iops": float64(reads.Count) / seconds, "write_iops": float64(writes.Count) / seconds,
			"write_p99_ns": float64(writes.PercentileNS(99))}
	}
	return s
}

// Scramble makes bytes that no layer can compress or share.
func Scramble(data []byte, n uint64) {
	rng := rand.NewPCG(n, 0x5b1)
	for ; len(data) >= 8; data = data[8:] {
		binary.LittleEndian.PutUint64(data, rng.Uint64())
	}
}
