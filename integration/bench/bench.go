package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

// spec is one line of the table of bars.
type spec struct {
	name  string
	title string
	run   func(*bench, context.Context) error
}

func specs() []spec {
	return []spec{
		{"reads", "Random reads of whole blocks, against fio", (*bench).runReads},
		{"ram", "The same on a drive in memory, where the drive is not the limit", (*bench).runRAM},
		{"puts", "Puts of 1 MiB, 16 at once, relaxed, against fio's random writes of a written file", (*bench).runPuts},
		{"mixed", "Tails under 70 % reads and 30 % writes of 64 KiB, 16 at once, against fio's randrw", (*bench).runMixed},
		{"files", "One file per block, with the same memory", (*bench).runFiles},
		{"match", "The longest present prefix of 8,192 keys", (*bench).runMatch},
		{"scale", "Cost of an operation at ten times the blocks", (*bench).runScale},
		{"reopen", "Reopening a store, against a bare scan of its index by Pebble", (*bench).runReopen},
		{"resident", "Resident memory per indexed block", (*bench).runResident},
		{"socket", "Reads through the daemon's socket, against the same store in process", (*bench).runSocket},
		{"pool", "Reads of other nodes of a pool, on one machine", (*bench).runPool},
		{"null", "Cost of an operation without a drive", (*bench).runNull},
		{"raw", "`spillway fio` on raw media, against fio itself", (*bench).runRaw},
		{"replay", "Replay of a conversation trace", (*bench).runReplay},
	}
}

func itemNames() []string {
	var names []string
	for _, s := range specs() {
		names = append(names, s.name)
	}
	return names
}

// bench is one run of the benchmark.
type bench struct {
	config
	temp   string // folder of this run, removed at the end
	commit string // of this program
	item   *item  // being measured
	loads  []float64
}

func run(ctx context.Context, c config, out io.Writer) (err error) {
	if err := findFio(); err != nil {
		return err
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, ".demo-bench-")
	if err != nil {
		return err
	}
	b := &bench{config: c, temp: temp, commit: commit(ctx)}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	r := &report{Config: c.shown()}
	if r.Facts, err = factsOf(ctx, temp); err != nil {
		return err
	}
	for _, s := range specs() {
		if len(c.only) > 0 && !slices.Contains(c.only, s.name) {
			continue
		}
		if err := b.measure(ctx, s); ctx.Err() != nil {
			return errors.New("interrupted")
		} else if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Items = append(r.Items, b.item)
		if _, err := io.WriteString(out, b.item.markdown()); err != nil {
			return err
		}
		if err := r.write(&c); err != nil { // an item that is done stays done
			return err
		}
	}
	return nil
}

func (b *bench) measure(ctx context.Context, s spec) error {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "bench: %s: %s\n", s.name, s.title)
	b.item = &item{Name: s.name, Title: s.title, Date: began.UTC().Format(time.DateTime), Commit: b.commit, Pairs: b.pairs, RuntimeSeconds: b.runtime.Seconds()}
	b.loads = []float64{loadAverage()}
	err := s.run(b, ctx)
	b.item.Seconds = time.Since(began).Round(time.Second).Seconds()
	b.item.LoadAverage = spread.Of(b.loads)
	return err
}

// note adds a line that the reader of the numbers needs.
func (b *bench) note(format string, args ...any) {
	b.item.Notes = append(b.item.Notes, fmt.Sprintf(format, args...))
}

// folder makes an empty folder in the run's own; remove it when done.
func (b *bench) folder(parent, name string) (dir string, remove func(), err error) {
	dir = filepath.Join(parent, name)
	remove = func() { _ = os.RemoveAll(dir) } // what stays goes with the run's folder
	remove()
	return dir, remove, os.MkdirAll(dir, 0o755)
}

// fioSides are fio's two engines, each run twice a round, so that the better of
// them can be held against itself.
func (b *bench) fioSides(ctx context.Context, f fioRun) ([]side, error) {
	var sides []side
	for _, engine := range fioEngines {
		f.engine = engine
		f.runtime = b.runtime
		cost, err := startup(ctx, f)
		if err != nil {
			return nil, err
		}
		for turn, name := range []string{fioName(engine), again(fioName(engine))} {
			this := f
			sides = append(sides, side{name: name, run: func(round int) (work.Sample, error) {
				this.seed = 1 + 2*round + turn
				s, err := this.run(ctx, cost)
				if err == nil && this.rw != "randread" {
					err = settle(filepath.Dir(this.file))
				}
				return s, err
			}})
		}
	}
	return sides, nil
}

var fioEngines = []string{"psync", "io_uring"}

func fioName(engine string) string { return "fio " + engine }

// keep stores the medians of all sides of a cell.
func (b *bench) keep(cell string, blockBytes, depth int, r runs) {
	names := make([]string, 0, len(r))
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.item.Sides = append(b.item.Sides, sideMedians{Cell: cell, BlockBytes: blockBytes, Depth: depth, Side: name,
			IOPS: r.median(name, iops), P50US: r.median(name, p50), P99US: r.median(name, p99), P999US: r.median(name, p999),
			CPUPerIOUS: r.median(name, cpuPerIO)})
	}
}

func (b *bench) add(rows ...row) { b.item.Rows = append(b.item.Rows, rows...) }
