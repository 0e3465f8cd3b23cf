package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spillway-kv/spillway/integration/bench/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

const (
	ours     = "spillway"
	mebibyte = 1 << 20
	// roundBlocks is more than one run can put: the numbers of new blocks of two
	// runs never meet.
	roundBlocks = 100_000_000
)

var blockSizes = []int{4 << 10, 64 << 10, mebibyte}

// cellName says what one cell of a table measured.
func cellName(blockBytes, depth int) string {
	if blockBytes >= mebibyte {
		return fmt.Sprintf("%d MiB, depth %d", blockBytes/mebibyte, depth)
	}
	return fmt.Sprintf("%d KiB, depth %d", blockBytes>>10, depth)
}

func (b *bench) runReads(ctx context.Context) error {
	return b.reads(ctx, b.temp, b.sizeBytes, []string{"auto", "psync", "uring"})
}

// reads compares random reads with fio's in every cell of block size and depth.
// The first of our engines is judged, the others are reported, every third round.
func (b *bench) reads(ctx context.Context, dir string, sizeBytes int64, engines []string) error {
	file, err := plain(dir, sizeBytes)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	b.note("One block per call, %d MiB on each side, direct I/O; ours proves every block by its checksum. "+
		"The reference is the better of fio's psync (a thread per call at once) and io_uring, number by number; CPU time is the process's, user and system.",
		sizeBytes/mebibyte)
	for _, blockBytes := range blockSizes {
		if err := b.readsOf(ctx, dir, file, sizeBytes, blockBytes, engines); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) readsOf(ctx context.Context, dir, file string, sizeBytes int64, blockBytes int, engines []string) error {
	store, remove, err := b.folder(dir, "store")
	if err != nil {
		return err
	}
	defer remove()
	j := work.Job{Work: work.Fill, Dir: store, CapacityBytes: sizeBytes + sizeBytes/4 + 64*mebibyte, BlockBytes: blockBytes, Blocks: int(sizeBytes) / blockBytes}
	if _, err := call(ctx, j); err != nil {
		return err
	}
	j.Work, j.ReadShare, j.Runtime = work.Transfer, 1, b.runtime
	for _, depth := range b.depths {
		sides, err := b.fioSides(ctx, fioRun{file: file, sizeBytes: sizeBytes, rw: "randread", blockBytes: blockBytes, depth: depth})
		if err != nil {
			return err
		}
		for i, engine := range engines {
			sides = append(sides, storeSide(ctx, engineName(i, engine), 1+2*min(i, 1), j, depth, engine))
		}
		cell := cellName(blockBytes, depth)
		r, err := b.alternate(ctx, cell, sides)
		if err != nil {
			return err
		}
		b.keep(cell, blockBytes, depth, r)
		b.judgeReads(cell, blockBytes, engines, r)
	}
	return nil
}

// engineName names our side: plainly where it is the one that is judged.
func engineName(i int, engine string) string {
	if i == 0 {
		return ours
	}
	return ours + " " + engine
}

func storeSide(ctx context.Context, name string, every int, j work.Job, depth int, engine string) side {
	j.Depth, j.IOEngine = depth, engine
	return side{name: name, every: every, run: func(round int) (work.Sample, error) {
		j.Seed = uint64(round)
		return call(ctx, j)
	}}
}

func (b *bench) judgeReads(cell string, blockBytes int, engines []string, r runs) {
	against := func(m measure, us string, bar *spread.Bar) {
		b.add(r.row(cell, m, us, r.best(m, fioName("psync"), fioName("io_uring")), bar))
	}
	cpu, cpuBar := cpuPerGB(blockBytes), &spread.Bar{Limit: 1.5}
	iopsBar, p99Bar := &spread.Bar{Limit: 0.95, Higher: true}, &spread.Bar{Limit: 1}
	if blockBytes < 64<<10 { // only CPU time has a bar there
		cpu, cpuBar, iopsBar, p99Bar = cpuPerIO, &spread.Bar{Limit: 2.5}, nil, nil
	}
	against(iops, ours, iopsBar)
	against(p99, ours, p99Bar)
	against(cpu, ours, cpuBar)
	for i, engine := range engines[1:] {
		against(iops, engineName(i+1, engine), nil)
	}
}

// runPuts measures a store that is full, so that every put makes room, against a
// file that was written before.
func (b *bench) runPuts(ctx context.Context) error {
	sizeBytes := 4 * b.sizeBytes // a store keeps a 64th of its slots free ahead of need: more than 16 of 1 MiB
	b.note("The store is full: every put evicts; it and the file have %d MiB. Puts are acknowledged when written and queued in the log; fio's writes are direct and unsynced. The drive settles after each run.", sizeBytes/mebibyte)
	r, err := b.churn(ctx, "randwrite", sizeBytes, mebibyte, 0)
	if err != nil {
		return err
	}
	cell := cellName(mebibyte, 16)
	against := func(m measure, bar *spread.Bar) {
		b.add(r.row(cell, m, ours, r.best(m, fioName("psync"), fioName("io_uring")), bar))
	}
	against(iops, &spread.Bar{Limit: 0.9, Higher: true})
	against(p99, nil)
	against(cpuPerGB(mebibyte), nil)
	return nil
}

func (b *bench) runMixed(ctx context.Context) error {
	b.note("Latencies are of the reads. Reads are of blocks that stay, half of the store; puts evict from the other half.")
	r, err := b.churn(ctx, "randrw", b.sizeBytes, 64<<10, 0.7)
	if err != nil {
		return err
	}
	for _, m := range []measure{iops, p50, p99, p999} {
		b.add(r.row(cellName(64<<10, 16), m, ours, r.best(m, fioName("psync"), fioName("io_uring")), nil))
	}
	return nil
}

// churn puts new blocks into a full store, with a share of reads between them.
func (b *bench) churn(ctx context.Context, rw string, sizeBytes int64, blockBytes int, readShare float64) (runs, error) {
	const depth = 16
	file, err := plain(b.temp, sizeBytes)
	if err != nil {
		return nil, err
	}
	defer os.Remove(file)
	store, remove, err := b.folder(b.temp, "store")
	if err != nil {
		return nil, err
	}
	defer remove()
	blocks := int(sizeBytes) / blockBytes
	j := work.Job{Work: work.Fill, Dir: store, CapacityBytes: sizeBytes + 64*mebibyte, BlockBytes: blockBytes, Blocks: blocks / 2, Full: true}
	if _, err := call(ctx, j); err != nil {
		return nil, err
	}
	j.Work, j.ReadShare, j.Runtime, j.Depth = work.Transfer, readShare, b.runtime, depth
	sides, err := b.fioSides(ctx, fioRun{file: file, sizeBytes: sizeBytes, rw: rw, blockBytes: blockBytes, depth: depth})
	if err != nil {
		return nil, err
	}
	sides = append(sides, side{name: ours, run: func(round int) (work.Sample, error) {
		j.Seed, j.First = uint64(round), (1+round)*roundBlocks
		s, err := call(ctx, j)
		if err == nil {
			err = settle(store)
		}
		return s, err
	}})
	cell := cellName(blockBytes, depth)
	r, err := b.alternate(ctx, cell, sides)
	if err == nil {
		b.keep(cell, blockBytes, depth, r)
	}
	return r, err
}
