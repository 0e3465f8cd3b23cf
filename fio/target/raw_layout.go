package target

import (
	"context"
	"errors"
	"sync"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/payload"
)

const (
	layoutBytes = 1 << 20 // of one write
	layoutDepth = 4
)

// layOut writes the parts of [from, to) of a benchmark's file that were never
// written, with blocks that describe themselves, and syncs.
func (s *Set) layOut(ctx context.Context, j *job.Job, path string, from, to int64) error {
	gaps, err := unwritten(path, from, to)
	if err != nil || len(gaps) == 0 {
		return err
	}
	m, err := device.OpenMedium(path, device.MediumOptions{Engine: device.EnginePsync, QueueDepth: layoutDepth, Buffered: !j.Direct})
	if err != nil {
		return err
	}
	w := &layoutWriter{m: m, maker: payload.Maker{Check: payload.XXHash, Seed: j.RandSeed, ZeroPercent: j.CompressPercent, SamePercent: j.DedupePercent}}
	for range layoutDepth {
		w.buffers = append(w.buffers, device.AlignedBuffer(layoutBytes, payload.UnitBytes))
	}
	var done, total int64
	for _, g := range gaps {
		total += g.to - g.from
	}
	for _, g := range gaps {
		for at := g.from; at < g.to && err == nil; {
			if err = ctx.Err(); err != nil {
				break
			}
			var n int64
			n, err = w.write(at, g.to)
			at += n
			done += n
			s.o.Progress("laying out "+path, done, total)
		}
	}
	if err == nil {
		err = w.sync()
	}
	return errors.Join(err, m.Close())
}

// layoutWriter writes several blocks at once.
type layoutWriter struct {
	m       *device.Medium
	maker   payload.Maker
	buffers [][]byte
}

// write fills as much of [at, end) as the buffers hold and returns how much.
func (w *layoutWriter) write(at, end int64) (n int64, err error) {
	var ops []*device.Op
	var inFlight sync.WaitGroup
	for _, b := range w.buffers {
		b = b[:min(layoutBytes, end-at-n)]
		if len(b) == 0 {
			break
		}
		w.maker.Fill(b, payload.At(at+n))
		ops = append(ops, &device.Op{Kind: device.Write, File: w.m.File(), Offset: at + n, Bufs: [][]byte{b}, Done: func(*device.Op) { inFlight.Done() }})
		n += int64(len(b))
	}
	inFlight.Add(len(ops))
	w.m.Submit(ops)
	inFlight.Wait()
	for _, op := range ops {
		err = errors.Join(err, op.Err)
	}
	return n, err
}

func (w *layoutWriter) sync() (err error) {
	w.m.Transfer(&device.Op{Kind: device.Sync, File: w.m.File(), Done: func(op *device.Op) { err = op.Err }})
	return err
}
