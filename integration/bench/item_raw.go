package main

import (
	"context"
	"os"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

// The sides of the null engine's cell.
const (
	harness    = "null engine"
	fioHarness = "fio's null engine"
	loneRead   = "lone read, io_uring"
)

// runRaw runs fio and `spillway fio` in turn, with the same arguments.
func (b *bench) runRaw(ctx context.Context) error {
	if _, err := os.Stat(b.spillway); err != nil {
		b.note("Not measured: no binary %s; make build makes it.", b.spillway)
		return nil
	}
	file, err := plain(b.temp, b.sizeBytes)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	b.note("One file of %d MiB, written whole, direct random reads; both get the same arguments. io_uring: one queue of that depth, buffers and file registered. "+
		"psync: so many workers with one call each. Latency is lat_ns, from submission to completion. CPU time is the process's, less that of a run of one operation.", b.sizeBytes/mebibyte)
	for _, engine := range fioEngines {
		for _, blockBytes := range blockSizes {
			for _, depth := range b.depths {
				f := fioRun{file: file, sizeBytes: b.sizeBytes, engine: engine, rw: "randread", blockBytes: blockBytes, depth: depth, runtime: b.runtime}
				if err := b.rawCell(ctx, f); err != nil {
					return err
				}
			}
		}
	}
	return b.harnessCell(ctx, file)
}

// byUs is the same run by `spillway fio`.
func (b *bench) byUs(f fioRun) fioRun {
	f.command = []string{b.spillway, "fio"}
	return f
}

// rawSide is one that takes turns. Seeds differ from run to run.
func rawSide(ctx context.Context, name string, f fioRun, turn int) (side, error) {
	cost, err := startup(ctx, f)
	return side{name: name, run: func(round int) (work.Sample, error) {
		this := f
		this.seed = 1 + 3*round + turn
		return this.run(ctx, cost)
	}}, err
}

func (b *bench) rawCell(ctx context.Context, f fioRun) error {
	const reference = "fio"
	var sides []side
	for turn, name := range []string{reference, again(reference), ours} {
		this := f
		if name == ours {
			this = b.byUs(f)
		}
		s, err := rawSide(ctx, name, this, turn)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	cell := f.engine + ", " + cellName(f.blockBytes, f.depth)
	r, err := b.alternate(ctx, cell, sides)
	if err != nil {
		return err
	}
	b.keep(cell, f.blockBytes, f.depth, r)
	iopsBar, p99Bar := &spread.Bar{Limit: 0.95, Higher: true}, &spread.Bar{Limit: 1}
	if f.blockBytes < 64<<10 {
		iopsBar, p99Bar = nil, nil
	}
	b.add(r.row(cell, iops, ours, reference, iopsBar), r.row(cell, p50, ours, reference, nil), r.row(cell, p99, ours, reference, p99Bar),
		r.row(cell, cpuPerIO, ours, reference, nil))
	return nil
}

// harnessCell sets an operation that does nothing beside a read.
func (b *bench) harnessCell(ctx context.Context, file string) error {
	null := fioRun{sizeBytes: b.sizeBytes, engine: "null", rw: "randread", blockBytes: 64 << 10, depth: 1, runtime: b.runtime}
	read := b.byUs(null)
	read.file, read.engine = file, "io_uring"
	var sides []side
	for turn, s := range []struct {
		name string
		run  fioRun
	}{{harness, b.byUs(null)}, {fioHarness, null}, {loneRead, read}} {
		made, err := rawSide(ctx, s.name, s.run, turn)
		if err != nil {
			return err
		}
		sides = append(sides, made)
	}
	cell := "null, " + cellName(64<<10, 1)
	r, err := b.alternate(ctx, cell, sides)
	if err != nil {
		return err
	}
	wall := measure{"time per operation", "ns", false, func(s work.Sample) float64 { return s.Seconds * 1e9 / s.Ops }}
	b.add(r.row(cell, wall, harness, loneRead, &spread.Bar{Limit: 0.02}), r.row(cell, wall, harness, fioHarness, nil))
	return nil
}
