package main

import (
	"context"
	"os"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

// Names of the ways to read one file per block.
const (
	filesDirect = "files, O_DIRECT"
	filesCold   = "files, buffered cold"
	filesWarm   = "files, buffered warm"
)

// runFiles compares with one file per block, read in three ways.
func (b *bench) runFiles(ctx context.Context) error {
	const ramMin = 192 * mebibyte // what a process needs for itself
	ram := max(b.sizeBytes/2, ramMin)
	group, remove, err := newCgroup(ram)
	if err != nil {
		b.note("Memory is not limited (%v): the page cache holds all files.", err)
	} else {
		b.note("Both sides run in one memory cgroup of %d MiB; %d MiB are read from.", ram/mebibyte, b.sizeBytes/mebibyte)
	}
	defer remove()
	b.note("A call opens, reads and closes a file named by the key, in one of 256 folders. Files are not proven by a checksum, blocks are. " +
		"Cold: their pages are dropped before each run. Warm: all are read once before it. Only O_DIRECT has a bar.")
	for _, blockBytes := range []int{64 << 10, mebibyte} {
		if err := b.filesOf(ctx, blockBytes, group); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) filesOf(ctx context.Context, blockBytes int, group string) error {
	store, removeStore, err := b.folder(b.temp, "store")
	if err != nil {
		return err
	}
	defer removeStore()
	files, removeFiles, err := b.folder(b.temp, "files")
	if err != nil {
		return err
	}
	defer removeFiles()
	j := work.Job{Work: work.Fill, Dir: store, CapacityBytes: b.sizeBytes + b.sizeBytes/4 + 64*mebibyte, BlockBytes: blockBytes, Blocks: int(b.sizeBytes) / blockBytes}
	if _, err := call(ctx, j); err != nil {
		return err
	}
	f := work.Job{Work: work.FillFiles, Dir: files, BlockBytes: blockBytes, Blocks: j.Blocks, Cgroup: group}
	if _, err := call(ctx, f); err != nil {
		return err
	}
	if err := settle(files); err != nil {
		return err
	}
	j.Work, j.ReadShare, j.Runtime, j.Cgroup = work.Transfer, 1, b.runtime, group
	f.Work, f.Runtime = work.ReadFiles, b.runtime
	for _, depth := range b.depths {
		if err := b.filesAt(ctx, blockBytes, depth, j, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) filesAt(ctx context.Context, blockBytes, depth int, j, f work.Job) error {
	sides := []side{storeSide(ctx, ours, 1, j, depth, "auto")}
	for _, way := range []struct{ name, cache string }{
		{filesDirect, work.Direct}, {again(filesDirect), work.Direct}, {filesCold, work.Cold}, {filesWarm, work.Warm}} {
		this := f
		this.Cache = way.cache
		sides = append(sides, storeSide(ctx, way.name, 1, this, depth, ""))
	}
	cell := cellName(blockBytes, depth)
	r, err := b.alternate(ctx, cell, sides)
	if err != nil {
		return err
	}
	b.keep(cell, blockBytes, depth, r)
	b.add(r.row(cell, iops, ours, filesDirect, &spread.Bar{Limit: 1, Higher: true}),
		r.row(cell, p99, ours, filesDirect, &spread.Bar{Limit: 1}),
		r.row(cell, iops, ours, filesCold, nil), r.row(cell, iops, ours, filesWarm, nil))
	return nil
}

// runRAM repeats the reads where the drive is memory.
func (b *bench) runRAM(ctx context.Context) error {
	drive, unmount, err := newRAMDrive(ctx, b.ramBytes)
	defer unmount()
	if err != nil {
		b.note("Not measured: %v.", err)
		return nil
	}
	b.note("The drive is %s, %d MiB, with ext4.", drive.kind, b.ramBytes/mebibyte)
	if err := os.Chmod(drive.dir, 0o755); err != nil {
		return err
	}
	return b.reads(ctx, drive.dir, b.sizeBytes/2)
}
