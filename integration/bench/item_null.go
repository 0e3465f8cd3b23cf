package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spillway-kv/spillway/integration/bench/work"
)

// runNull measures what an operation costs where the drive does nothing: in the
// device layer alone, and through the store.
func (b *bench) runNull(ctx context.Context) error {
	b.note("io_uring requests that do nothing, one per operation; through the store, gets of 4 KiB with look-up and proof. References are one ring.")
	store, remove, err := b.hollowStore(ctx, "null", b.entries/10)
	defer remove()
	if err != nil {
		return err
	}
	store.Work, store.ReadShare, store.Runtime = work.Transfer, 1, b.runtime
	bare := work.Job{Work: work.Null, BlockBytes: indexBlockBytes, Runtime: b.runtime}
	for _, way := range []struct {
		name string
		job  work.Job
	}{{"device", bare}, {"store", store}} {
		for _, depth := range b.depths {
			if err := b.nullCell(ctx, fmt.Sprintf("%s, depth %d", way.name, depth), way.job, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) nullCell(ctx context.Context, cell string, j work.Job, depth int) error {
	const one, two, workers = "1 ring", "2 rings", "workers"
	rings := func(n int) work.Job { j.Rings = n; return j }
	r, err := b.alternate(ctx, cell, []side{storeSide(ctx, one, 1, rings(1), depth, "uring"), storeSide(ctx, again(one), 1, rings(1), depth, "uring"),
		storeSide(ctx, two, 1, rings(2), depth, "uring"), storeSide(ctx, workers, 1, rings(1), depth, "psync")})
	if err != nil {
		return err
	}
	b.keep(cell, indexBlockBytes, depth, r)
	wall := measure{"time per operation", "ns", false, func(s work.Sample) float64 { return s.Seconds * 1e9 / s.Ops }}
	cpu := measure{"CPU per operation", "ns", false, func(s work.Sample) float64 { return s.CPUSeconds * 1e9 / s.Ops }}
	for _, m := range []measure{wall, cpu} {
		b.add(r.row(cell, m, two, one, nil), r.row(cell, m, workers, one, nil))
	}
	return nil
}

// runReplay runs a trace through the binary, as an operator would.
func (b *bench) runReplay(ctx context.Context) error {
	if _, err := os.Stat(b.spillway); err != nil {
		b.note("Not measured: no binary %s; make build makes it.", b.spillway)
		return nil
	}
	dir, remove, err := b.folder(b.temp, "replay")
	defer remove()
	if err != nil {
		return err
	}
	b.item.Pairs, b.item.RuntimeSeconds = 1, 0
	const blockBytes = 64 << 10
	args := []string{"replay", "--dir", dir, "--capacity", fmt.Sprint(b.replayBytes), "--block-bytes", fmt.Sprint(blockBytes), "--quiet", "--json"}
	switch {
	case b.trace != "":
		b.note("The trace %s, each request at once after the one before, blocks of 64 KiB, a store of %d MiB.", filepath.Base(b.trace), b.replayBytes/mebibyte)
		args = append(args, b.trace)
	default:
		b.note("Generated chats for 10 s, since no trace was given, blocks of 64 KiB, a store of %d MiB.", b.replayBytes/mebibyte)
		args = append(args, "--generate", "--for", "10s")
	}
	if b.trace != "" && b.quick || b.tiny {
		args = append(args, "--requests", "300")
	}
	cmd := exec.CommandContext(ctx, b.spillway, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	b.item.Replay = out
	return b.addReplay(out)
}

func (b *bench) addReplay(out []byte) error {
	var v struct {
		Requests float64                                        `json:"requests"`
		Hits     float64                                        `json:"prefix_hit_ratio"`
		Wrong    float64                                        `json:"wrong_bytes"`
		Read     float64                                        `json:"read_bytes_per_second"`
		Write    float64                                        `json:"write_bytes_per_second"`
		Depth    float64                                        `json:"depth_mean"`
		Latency  struct{ Samples, P50, P90, P99, P999 float64 } `json:"read_latency_ns"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("the replay's JSON: %w", err)
	}
	if v.Wrong != 0 {
		return fmt.Errorf("the replay read %.0f blocks with wrong bytes", v.Wrong)
	}
	for _, n := range []struct {
		name, unit string
		value      float64
	}{{"requests", "", v.Requests}, {"prefix hits", "share of blocks", v.Hits}, {"blocks read", "", v.Latency.Samples},
		{"blocks being read, on average", "", v.Depth}, {"reading", "MB/s", v.Read / 1e6}, {"putting", "MB/s", v.Write / 1e6},
		{"P50 of a read", "µs", v.Latency.P50 / 1e3}, {"P90 of a read", "µs", v.Latency.P90 / 1e3}, {"P99 of a read", "µs", v.Latency.P99 / 1e3}} {
		b.add(single("replay", n.name, n.unit, []float64{n.value}, nil))
	}
	return nil
}
