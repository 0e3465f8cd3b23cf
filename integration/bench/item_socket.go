package main

import (
	"context"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

// runSocket compares reads through a daemon with reads of the same store in process,
// and measures what a small request costs where the drive does nothing.
func (b *bench) runSocket(ctx context.Context) error {
	b.note("Ours is a client that reads through a daemon, in another process, into memory that both share; the reference has the store in its own process, and memory of the same kind (a memfd). One block per call; CPU time is of both processes.")
	dir, remove, err := b.folder(b.temp, "socket")
	if err != nil {
		return err
	}
	defer remove()
	for _, blockBytes := range []int{64 << 10, mebibyte} {
		j := work.Job{Work: work.Fill, Dir: dir + cellName(blockBytes, 0), CapacityBytes: b.sizeBytes + b.sizeBytes/4 + 64*mebibyte, BlockBytes: blockBytes, Blocks: int(b.sizeBytes) / blockBytes}
		if _, err := call(ctx, j); err != nil {
			return err
		}
		j.Runtime = b.runtime
		for _, depth := range b.depths {
			bar := (*spread.Bar)(nil)
			if blockBytes == mebibyte && depth == 16 {
				bar = &spread.Bar{Limit: 0.95, Higher: true}
			}
			if err := b.socketCell(ctx, cellName(blockBytes, depth), j, depth, 1, bar); err != nil {
				return err
			}
		}
	}
	return b.socketNull(ctx)
}

const (
	inProcess = "in process"
	// hugePages is in process with private memory on huge pages, which a client's
	// shared memory has only where the machine grants it.
	hugePages = "in process, huge pages"
)

func (b *bench) socketCell(ctx context.Context, cell string, j work.Job, depth, batch int, bar *spread.Bar) error {
	direct, mounted := j, j
	direct.Work, direct.ReadShare, direct.Batch = work.Transfer, 1, batch
	huge := direct
	direct.SharedPages = true
	mounted.Work, mounted.ReadShare, mounted.Batch = work.Mounted, 1, batch
	engine := "auto"
	if j.Hollow {
		engine = "uring"
	}
	r, err := b.alternate(ctx, cell, []side{storeSide(ctx, ours, 1, mounted, depth, engine),
		storeSide(ctx, inProcess, 1, direct, depth, engine), storeSide(ctx, again(inProcess), 1, direct, depth, engine),
		storeSide(ctx, hugePages, 5, huge, depth, engine)})
	if err != nil {
		return err
	}
	b.keep(cell, j.BlockBytes, depth, r)
	b.add(r.row(cell, iops, ours, inProcess, bar), r.row(cell, p99, ours, inProcess, nil))
	if j.Hollow {
		perCall := measure{"time per call", "us", false, func(s work.Sample) float64 { return s.Seconds * 1e6 / s.Ops * float64(batch*depth) }}
		b.add(r.row(cell, perCall, ours, inProcess, nil), r.row(cell, cpuPerIO, ours, inProcess, nil))
		return nil
	}
	b.add(r.row(cell, cpuPerGB(j.BlockBytes), ours, inProcess, nil), r.row(cell, iops, hugePages, inProcess, nil))
	return nil
}

// socketNull asks for one block and for 32, of a store whose drive does nothing.
func (b *bench) socketNull(ctx context.Context) error {
	j, remove, err := b.hollowStore(ctx, "socket-null", b.entries/10)
	defer remove()
	if err != nil {
		return err
	}
	j.Runtime = b.runtime
	for _, batch := range []int{1, 32} {
		cell := "null, a block a call"
		if batch > 1 {
			cell = "null, 32 blocks a call"
		}
		if err := b.socketCell(ctx, cell, j, 1, batch, nil); err != nil {
			return err
		}
	}
	return nil
}
