package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

const indexBlockBytes = 4 << 10

// hollowStore makes a full store of that many blocks that stay, and a tenth or
// two more that make room, whose blocks take no disk: only index and log are real.
func (b *bench) hollowStore(ctx context.Context, name string, blocks int) (j work.Job, remove func(), err error) {
	dir, remove, err := b.folder(b.temp, name)
	if err != nil {
		return j, remove, err
	}
	j = hollowJob(dir, blocks)
	j.Work, j.Blocks, j.Full = work.Fill, blocks, true
	_, err = call(ctx, j)
	return j, remove, err
}

func hollowJob(dir string, blocks int) work.Job {
	return work.Job{Dir: dir, Hollow: true, BlockBytes: indexBlockBytes, CapacityBytes: hollowCapacity(blocks)}
}

// hollowCapacity holds that many blocks, a tenth more, and what a store keeps free.
func hollowCapacity(blocks int) int64 {
	const perBlock = indexBlockBytes + 128 + 256 // slot, directory, index
	return int64(float64(blocks)*1.1)*perBlock + min(int64(blocks)*perBlock/10, 256*mebibyte) + 64*mebibyte
}

// runMatch asks stores for prefixes, and measures how long the derivation of
// the IDs takes alone.
func (b *bench) runMatch(ctx context.Context) error {
	b.note("8,192 consecutive keys of 32 bytes, all present, one call on one goroutine; the store holds %d blocks on the null device. The derivation is the engine's own benchmark of it, run in turn.", b.entries)
	j, remove, err := b.hollowStore(ctx, "match", b.entries)
	defer remove()
	if err != nil {
		return err
	}
	test := filepath.Join(b.temp, "engine.test")
	if _, err := command(ctx, "go", "test", "-c", "-o", test, "github.com/spillway-kv/spillway/engine"); err != nil {
		return err
	}
	r, err := b.alternate(ctx, "8,192 keys", []side{b.costSide(ctx, ours, j, 0),
		{name: "ID derivation", run: func(int) (work.Sample, error) { return deriveIDs(ctx, test) }}})
	if err != nil {
		return err
	}
	whole, ids := r.of(ours, value("match_cpu_ns", "", "", false)), r.of("ID derivation", value("id_cpu_ns", "", "", false))
	apart := make([]float64, len(whole))
	for i := range whole {
		apart[i] = whole[i] - ids[i]
	}
	b.add(single("8,192 keys", "time, whole answer", "ns/key", r.of(ours, value("match_ns", "", "", false)), nil),
		single("8,192 keys", "CPU, whole answer", "ns/key", whole, nil), single("8,192 keys", "CPU, ID derivation", "ns/key", ids, nil),
		single("8,192 keys", "CPU, answer without derivation", "ns/key", apart, &spread.Bar{Limit: 100}))
	return nil
}

var cpuPerKey = regexp.MustCompile(`([0-9.]+) cpu-ns/key`)

// deriveIDs runs the engine's own benchmark of the derivation.
func deriveIDs(ctx context.Context, test string) (s work.Sample, err error) {
	out, err := exec.CommandContext(ctx, test, "-test.run", "^$", "-test.bench", "^BenchmarkBlockID$", "-test.benchtime", "300ms").CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("benchmark of the ID derivation: %w: %s", err, out)
	}
	m := cpuPerKey.FindSubmatch(out)
	if m == nil {
		return s, fmt.Errorf("benchmark of the ID derivation printed no cpu-ns/key: %s", out)
	}
	ns, err := strconv.ParseFloat(string(m[1]), 64)
	return work.Sample{Values: map[string]float64{"id_cpu_ns": ns}}, err
}

// costSide measures get, match and put. Turn tells apart the sides that share a store.
func (b *bench) costSide(ctx context.Context, name string, j work.Job, turn int) side {
	j.Work, j.Runtime, j.Depth = work.Cost, 3*b.runtime, 1
	return side{name: name, run: func(round int) (work.Sample, error) {
		j.Seed, j.First = uint64(round), (1+2*round+turn)*roundBlocks
		return call(ctx, j)
	}}
}

// runScale compares a store with one of a tenth of the blocks.
func (b *bench) runScale(ctx context.Context) error {
	few, many := fmt.Sprintf("%d blocks", b.entries/10), fmt.Sprintf("%d blocks", b.entries)
	b.note("CPU time of the whole process; one call at a time, blocks of 4 KiB on the null device, both stores full, so that every put evicts.")
	small, removeSmall, err := b.hollowStore(ctx, "small", b.entries/10)
	defer removeSmall()
	if err != nil {
		return err
	}
	large, removeLarge, err := b.hollowStore(ctx, "large", b.entries)
	defer removeLarge()
	if err != nil {
		return err
	}
	cell := few + " and " + many
	r, err := b.alternate(ctx, cell, []side{b.costSide(ctx, many, large, 0), b.costSide(ctx, few, small, 0), b.costSide(ctx, again(few), small, 1)})
	if err != nil {
		return err
	}
	for _, m := range []measure{value("get_cpu_ns", "CPU per get", "ns", false), value("put_cpu_ns", "CPU per put", "ns", false),
		value("match_cpu_ns", "CPU per key matched", "ns", false), value("match_ns", "time per key matched", "ns", false)} {
		b.add(r.row(cell, m, many, few, nil))
	}
	return nil
}

// runReopen compares opening a store with what Pebble alone needs to read the
// same entries.
func (b *bench) runReopen(ctx context.Context) error {
	const scan = "Pebble scan"
	b.note("Closed cleanly, files in the page cache. Ours: Open until ready. Reference: Pebble opens the same index and reads every block's entry.")
	j, remove, err := b.hollowStore(ctx, "reopen", b.entries)
	defer remove()
	if err != nil {
		return err
	}
	store, bare := j, j
	store.Work, bare.Work = work.Reopen, work.Scan
	sides := []side{storeSide(ctx, ours, 1, store, 1, "auto"), storeSide(ctx, scan, 1, bare, 1, ""), storeSide(ctx, again(scan), 1, bare, 1, "")}
	r, err := b.alternate(ctx, fmt.Sprintf("%d blocks", b.entries), sides)
	if err != nil {
		return err
	}
	entries := value("blocks", "blocks", "", false)
	got, want := r.median(ours, entries), r.median(scan, entries)
	if got != want {
		return errors.New(fmt.Sprint("the store holds ", got, " blocks, its index ", want))
	}
	b.add(r.row(fmt.Sprintf("%.0f blocks", got), span, ours, scan, &spread.Bar{Limit: 2}))
	return nil
}

// runResident looks at the memory of a store as it grows.
func (b *bench) runResident(ctx context.Context) error {
	dir, remove, err := b.folder(b.temp, "resident")
	defer remove()
	if err != nil {
		return err
	}
	j := hollowJob(dir, b.steps[len(b.steps)-1])
	j.Work, j.Steps = work.Resident, b.steps
	b.item.Pairs, b.item.RuntimeSeconds = max(b.pairs/5, 1), 0
	var all []work.Sample
	for range b.item.Pairs {
		s, err := call(ctx, j)
		if err = errors.Join(err, os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			return err
		}
		all = append(all, s)
	}
	b.note("Anonymous memory of the process after a collection, once the index is written; the slope leaves out what a store of any size needs. Eviction policy included.")
	few, many := b.steps[0], b.steps[1]
	cell := fmt.Sprintf("slope from %d to %d blocks", few, many)
	values := func(of func(work.Sample) float64) (v []float64) {
		for _, s := range all {
			v = append(v, of(s))
		}
		return v
	}
	slope := func(name string) []float64 {
		return values(func(s work.Sample) float64 { return (s.Values[name+"_1"] - s.Values[name+"_0"]) / float64(many-few) })
	}
	whole := values(func(s work.Sample) float64 { return s.Values["rss_1"] / float64(many) })
	b.add(single(cell, "resident memory", "bytes/block", slope("rss"), &spread.Bar{Limit: 96}),
		single(cell, "index table, as Stat says", "bytes/block", slope("index"), nil),
		single(fmt.Sprintf("%d blocks", many), "resident memory, all of it", "bytes/block", whole, nil))
	return nil
}
