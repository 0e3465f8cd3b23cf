package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

const (
	poolDepth = 16
	slowDelay = 20 * time.Millisecond
	// Where the numbers of blocks begin that lie on one node.
	onMemory, onDrive, onSlow, onAsker = 0, 1_000_000, 2_000_000, 3_000_000
)

// poolBench is the pool that the item measures.
type poolBench struct {
	*bench
	p                     *daemons
	asker                 *daemon // with the default number of connections
	one, four             *daemon // askers with other numbers
	memory, drive, slowed *daemon // who has the blocks
	slow                  *delayed
	blocks                int
	job                   work.Job
}

// runPool reads blocks of other nodes, all on this machine, through real daemons.
func (b *bench) runPool(ctx context.Context) (err error) {
	if _, err := os.Stat(b.spillway); err != nil {
		b.note("Not measured: no binary %s; make build makes it.", b.spillway)
		return nil
	}
	dir, remove, err := b.folder(b.temp, "pool")
	if err != nil {
		return err
	}
	defer remove()
	x := &poolBench{bench: b, p: &daemons{binary: b.spillway, dir: dir}, blocks: int(b.sizeBytes / 4 / mebibyte)}
	x.job = work.Job{BlockBytes: mebibyte, Blocks: x.blocks, Runtime: b.runtime}
	defer func() {
		err = errors.Join(err, x.p.stop())
		if x.slow != nil {
			x.slow.close()
		}
	}()
	b.note("All nodes are processes of the daemon on this machine, joined over loopback without TLS; a client of one reads blocks that lie on another, %d blocks of 1 MiB, one a call, %d calls at once, "+
		"into memory that client and daemon share. Every block is proven where it arrives. CPU time is of the client, its daemon and the one that has the blocks, or of both ends. "+
		"Plain sockets: a client that sends numbers and a server that sends 1 MiB of memory for each, as many under way on as many connections; the client hashes what comes, too, and has memory of the same kind (a memfd).", x.blocks, poolDepth)
	for _, step := range []func(*poolBench, context.Context) error{(*poolBench).begin, (*poolBench).match, (*poolBench).fromMemory, (*poolBench).fromDrive, (*poolBench).besideSlow, (*poolBench).hedged} {
		if err := step(x, ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin starts three nodes and fills two of them.
func (x *poolBench) begin(ctx context.Context) (err error) {
	room := 2*x.sizeBytes + 256*mebibyte
	for _, n := range []struct {
		at **daemon
		as string
		s  settings
	}{
		{&x.asker, "asker", settings{capacityBytes: room}},
		{&x.memory, "memory", settings{capacityBytes: room, memoryBytes: x.sizeBytes/2 + 128*mebibyte}},
		{&x.drive, "drive", settings{capacityBytes: room}},
		{&x.one, "one", settings{capacityBytes: room, connections: 1}},
		{&x.four, "four", settings{capacityBytes: room, connections: 4}},
		{&x.slowed, "slow", settings{capacityBytes: room}},
	} {
		if *n.at, err = x.p.add(n.as, n.s); err != nil {
			return err
		}
	}
	for _, d := range []*daemon{x.asker, x.memory, x.drive} {
		if err := d.start(ctx, true, ""); err != nil {
			return err
		}
	}
	return errors.Join(x.fill(ctx, x.memory, onMemory), x.fill(ctx, x.drive, onDrive), x.fill(ctx, x.asker, onAsker))
}

func (x *poolBench) fill(ctx context.Context, d *daemon, first int) error {
	j := x.job
	j.Work, j.Socket, j.First = work.PoolFill, d.socket(), first
	_, err := call(ctx, j)
	return err
}

// reading is a side that reads blocks from first on through a daemon.
func (x *poolBench) reading(ctx context.Context, name string, through *daemon, first int, change func(j *work.Job)) side {
	j := x.job
	j.Work, j.Socket, j.First, j.Depth, j.Warm = work.PoolRead, through.socket(), first, poolDepth, 1
	j.Daemons = []int{through.pid()}
	if owner := map[int]*daemon{onMemory: x.memory, onDrive: x.drive, onSlow: x.slowed, onAsker: x.asker}[first]; owner != through {
		j.Daemons = append(j.Daemons, owner.pid())
	}
	if change != nil {
		change(&j)
	}
	return side{name: name, run: func(round int) (work.Sample, error) {
		j.Seed = uint64(round)
		return call(ctx, j)
	}}
}

// match asks three nodes, and one alone.
func (x *poolBench) match(ctx context.Context) error {
	const absent = 4096
	matching := func(name string, d *daemon, keys, found int) side {
		return x.reading(ctx, name, d, onMemory, func(j *work.Job) {
			j.Work, j.Depth, j.Blocks, j.Warm = work.PoolMatch, 1, keys, found
		})
	}
	there, alone, nowhere := "keys on another of 3 nodes", "keys on the node asked", fmt.Sprintf("%d keys, some on another of 3 nodes", absent)
	r, err := x.alternate(ctx, "Match", []side{matching(there, x.asker, x.blocks, x.blocks), matching(alone, x.memory, x.blocks, x.blocks),
		matching(again(alone), x.memory, x.blocks, x.blocks), matching(nowhere, x.asker, absent, x.blocks)})
	if err != nil {
		return err
	}
	cell := fmt.Sprintf("Match, %d keys", x.blocks)
	x.add(r.row(cell, p50, there, alone, nil), r.row(cell, p99, there, alone, nil),
		single("Match, "+nowhere, p50.name, p50.unit, r.of(nowhere, p50), nil), single("Match, "+nowhere, p99.name, p99.unit, r.of(nowhere, p99), nil))
	return nil
}

// fromMemory reads what another node has in its memory, and compares it with what plain
// sockets bring.
func (x *poolBench) fromMemory(ctx context.Context) error {
	for _, d := range []*daemon{x.one, x.four} {
		if err := d.start(ctx, true, ""); err != nil {
			return err
		}
	}
	warm := x.reading(ctx, "warm", x.memory, onMemory, func(j *work.Job) { j.Warm = j.Blocks })
	if _, err := warm.run(0); err != nil {
		return err
	}
	bare := func(connections int) string { return fmt.Sprintf("plain sockets, %d", connections) }
	plain := func(name string, connections int) side {
		j := x.job
		j.Work, j.Depth, j.Connections, j.SharedPages = work.BareRead, poolDepth, connections, true
		return side{name: name, run: func(int) (s work.Sample, err error) {
			if j.Socket, err = freePort(); err != nil {
				return s, err
			}
			return call(ctx, j)
		}}
	}
	over := func(connections int) string { return fmt.Sprintf("%s, %d", ours, connections) }
	batches := func(j *work.Job) { j.Depth, j.Batch = 2, poolDepth/2 }
	r, err := x.alternate(ctx, "from memory", []side{
		x.reading(ctx, over(2), x.asker, onMemory, nil), x.reading(ctx, inBatches, x.asker, onMemory, batches), plain(bare(2), 2), plain(again(bare(2)), 2),
		x.reading(ctx, over(1), x.one, onMemory, nil), plain(bare(1), 1),
		x.reading(ctx, over(4), x.four, onMemory, nil), plain(bare(4), 4),
	})
	if err != nil {
		return err
	}
	const cell = "1 MiB in a peer's memory, depth 16"
	x.keep(cell, mebibyte, poolDepth, r)
	bar := &spread.Bar{Limit: 0.85, Higher: true}
	for _, n := range []int{2, 1, 4} {
		at := fmt.Sprintf("%s, connections %d", cell, n)
		x.add(r.row(at, iops, over(n), bare(n), bar), r.row(at, p99, over(n), bare(n), nil), r.row(at, cpuPerGB(mebibyte), over(n), bare(n), nil))
		bar = nil // only the default is judged
	}
	at := cell + ", two calls of 8 blocks"
	x.add(r.row(at, iops, inBatches, bare(2), &spread.Bar{Limit: 0.85, Higher: true}), r.row(at, cpuPerGB(mebibyte), inBatches, bare(2), nil))
	return nil
}

// fromDrive reads what another node has on its drive, and compares it with reads on that
// node.
func (x *poolBench) fromDrive(ctx context.Context) error {
	const local = "on the node itself"
	r, err := x.alternate(ctx, "from the drive", []side{x.reading(ctx, ours, x.asker, onDrive, nil),
		x.reading(ctx, local, x.drive, onDrive, nil), x.reading(ctx, again(local), x.drive, onDrive, nil),
		x.reading(ctx, over1, x.one, onDrive, nil), x.reading(ctx, over4, x.four, onDrive, nil)})
	if err != nil {
		return err
	}
	const cell = "1 MiB on a peer's drive, depth 16"
	x.keep(cell, mebibyte, poolDepth, r)
	x.add(r.row(cell, iops, ours, local, &spread.Bar{Limit: 0.90, Higher: true}), r.row(cell, p99, ours, local, nil), r.row(cell, cpuPerGB(mebibyte), ours, local, nil),
		r.row(cell+", connections 1", iops, over1, local, nil), r.row(cell+", connections 4", iops, over4, local, nil))
	return nil
}

const (
	over1 = ours + ", 1 connection"
	over4 = ours + ", 4 connections"
)

// besideSlow reads on the node itself, while one more caller asks for blocks that lie
// behind a slow network, and while none does.
func (x *poolBench) besideSlow(ctx context.Context) (err error) {
	// The slow node has what the fast one has, put while it was alone, and blocks of its own.
	if err := x.slowed.start(ctx, false, ""); err != nil {
		return err
	}
	if err := errors.Join(x.fill(ctx, x.slowed, onMemory), x.fill(ctx, x.slowed, onSlow), x.slowed.stop()); err != nil {
		return err
	}
	if x.slow, err = newDelayed(x.slowed.bind); err != nil {
		return err
	}
	if err := x.slowed.start(ctx, true, x.slow.address()); err != nil {
		return err
	}
	if _, err := x.reading(ctx, "reached", x.asker, onSlow, nil).run(0); err != nil {
		return err
	}
	x.slow.delay.Store(int64(slowDelay))
	defer x.slow.delay.Store(0)
	const (
		beside = "beside a slow peer"
		quiet  = "without"
	)
	r, err := x.alternate(ctx, "local reads", []side{
		x.reading(ctx, beside, x.asker, onAsker, func(j *work.Job) { j.Beside = onSlow }),
		x.reading(ctx, quiet, x.asker, onAsker, nil), x.reading(ctx, again(quiet), x.asker, onAsker, nil),
	})
	if err != nil {
		return err
	}
	x.note("The slow peer's answers come %v late, piece by piece; %q: one more caller asks for its blocks all the time, each for 50 ms at most.", slowDelay, beside)
	const cell = "local reads beside a slow peer, depth 16"
	x.add(r.row(cell, p99, beside, quiet, &spread.Bar{Limit: 1.2}), r.row(cell, iops, beside, quiet, nil))
	return nil
}

// hedged reads blocks of which a slow node has a copy, and a fast one.
func (x *poolBench) hedged(ctx context.Context) error {
	x.slow.delay.Store(int64(slowDelay))
	const (
		both = "a fast and a slow copy"
		slow = "the slow copy alone"
	)
	few := func(j *work.Job) { j.Depth = 4 }
	r, err := x.alternate(ctx, "hedge", []side{x.reading(ctx, both, x.asker, onMemory, few), x.reading(ctx, slow, x.asker, onSlow, few)})
	if err != nil {
		return err
	}
	const cell = "1 MiB with a slow copy, depth 4"
	x.add(r.row(cell, p50, both, slow, nil), r.row(cell, p99, both, slow, nil))
	return nil
}
