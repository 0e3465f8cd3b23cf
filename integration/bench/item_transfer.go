package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spillway-kv/spillway/fio/spread"
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

func (b *bench) runReads(ctx context.Context) error { return b.reads(ctx, b.temp, b.sizeBytes) }

// Our sides of the reads. The first is judged, the others are reported.
const (
	onPsync    = ours + " psync"
	onUring    = ours + " uring"
	smallPages = ours + " 4 KiB pages"
	inBatches  = ours + " batches"
	proofAlone = "XXH3 alone"
)

// reads compares random reads with fio's in every cell of block size and depth.
func (b *bench) reads(ctx context.Context, dir string, sizeBytes int64) error {
	file, err := plain(dir, sizeBytes)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	b.note("One block per call, %d MiB on each side, direct I/O; ours proves every block by its checksum and reads into an arena (huge pages, registered). "+
		"The reference is the better of fio's psync (a thread per call at once) and io_uring (buffers and file registered), number by number; its memory asks for huge pages too. CPU time is the process's, user and system.",
		sizeBytes/mebibyte)
	b.note("Sides that are only reported take part in every fifth round. %q: into memory of 4 KiB pages, not registered. %q: two callers, half of the blocks in each get. "+
		"%q: hashing blocks just read with pread, nothing else.", smallPages, inBatches, proofAlone)
	for _, blockBytes := range blockSizes {
		if err := b.readsOf(ctx, dir, file, sizeBytes, blockBytes); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) readsOf(ctx context.Context, dir, file string, sizeBytes int64, blockBytes int) error {
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
		sides = append(sides, readSides(ctx, j, file, depth)...)
		cell := cellName(blockBytes, depth)
		r, err := b.alternate(ctx, cell, sides)
		if err != nil {
			return err
		}
		b.keep(cell, blockBytes, depth, r)
		b.judgeReads(cell, blockBytes, depth, r)
	}
	return nil
}

// readSides are our sides of one cell; only the first takes part in every round.
func readSides(ctx context.Context, j work.Job, file string, depth int) []side {
	small, batch, proof := j, j, j
	small.SmallPages = true
	batch.Batch = depth / 2
	proof.Work, proof.Dir = work.Prove, file
	sides := []side{storeSide(ctx, ours, 1, j, depth, "auto"), storeSide(ctx, onPsync, 5, j, depth, "psync"), storeSide(ctx, onUring, 5, j, depth, "uring"),
		storeSide(ctx, smallPages, 5, small, depth, "auto"), storeSide(ctx, proofAlone, 5, proof, depth, "")}
	if depth > 1 {
		sides = append(sides, storeSide(ctx, inBatches, 5, batch, 2, "auto"))
	}
	return sides
}

func storeSide(ctx context.Context, name string, every int, j work.Job, depth int, engine string) side {
	j.Depth, j.IOEngine = depth, engine
	return side{name: name, every: every, run: func(round int) (work.Sample, error) {
		j.Seed = uint64(round)
		return call(ctx, j)
	}}
}

func (b *bench) judgeReads(cell string, blockBytes, depth int, r runs) {
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
	against(cpu, proofAlone, nil)
	against(iops, smallPages, nil)
	against(cpu, smallPages, nil)
	if depth > 1 {
		against(iops, inBatches, nil)
		against(cpu, inBatches, nil)
	}
	for _, engine := range []string{onPsync, onUring} {
		against(iops, engine, nil)
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
