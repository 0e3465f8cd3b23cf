package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

// side is one of those that take turns.
type side struct {
	name  string
	every int // takes part in every so many-th round; 0 and 1: in all
	run   func(round int) (work.Sample, error)
}

// runs are the samples of each side, by round; nil where it did not take part.
type runs map[string][]*work.Sample

// alternate lets the sides take turns. The order within a round rotates, so
// that none always comes first.
func (b *bench) alternate(ctx context.Context, cell string, sides []side) (runs, error) {
	all := runs{}
	for _, s := range sides {
		all[s.name] = make([]*work.Sample, b.pairs)
	}
	for round := range b.pairs {
		var shown strings.Builder
		for turn := range sides {
			s := sides[(round+turn)%len(sides)]
			if s.every > 1 && round%s.every != 0 {
				continue
			}
			sample, err := s.run(round)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %s, round %d: %w", cell, s.name, round+1, err)
			}
			all[s.name][round] = &sample
			fmt.Fprintf(&shown, ", %s %s", s.name, brief(sample))
		}
		b.loads = append(b.loads, loadAverage())
		fmt.Fprintf(os.Stderr, "bench: %s, %s, round %d of %d%s\n", b.item.Name, cell, round+1, b.pairs, shown.String())
	}
	return all, nil
}

func brief(s work.Sample) string {
	if s.IOPS > 0 {
		return fmt.Sprintf("%.0f/s", s.IOPS)
	}
	if s.Seconds > 0 {
		return fmt.Sprintf("%.3f s", s.Seconds)
	}
	return "done"
}

// measure is one number of a sample. Samples that lack it give 0.
type measure struct {
	name   string
	unit   string
	higher bool // is better
	of     func(work.Sample) float64
}

var (
	iops = measure{"IOPS", "1/s", true, func(s work.Sample) float64 { return s.IOPS }}
	p50  = measure{"P50", "µs", false, func(s work.Sample) float64 { return s.P50NS / 1e3 }}
	p99  = measure{"P99", "µs", false, func(s work.Sample) float64 { return s.P99NS / 1e3 }}
	p999 = measure{"P99.9", "µs", false, func(s work.Sample) float64 { return s.P999NS / 1e3 }}
	span = measure{"time", "s", false, func(s work.Sample) float64 { return s.Seconds }}
)

// cpuPerIO and cpuPerGB put CPU time in relation to what was moved.
var cpuPerIO = measure{"CPU per I/O", "µs", false, func(s work.Sample) float64 { return s.CPUSeconds * 1e6 / s.Ops }}

func cpuPerGB(blockBytes int) measure {
	return measure{"CPU per GB", "s", false, func(s work.Sample) float64 { return s.CPUSeconds * 1e9 / (s.Ops * float64(blockBytes)) }}
}

func value(name, shown, unit string, higher bool) measure {
	return measure{shown, unit, higher, func(s work.Sample) float64 { return s.Values[name] }}
}

// of lists one number of a side by round, 0 where it did not take part.
func (r runs) of(side string, m measure) []float64 {
	all := make([]float64, len(r[side]))
	for i, s := range r[side] {
		if s != nil {
			all[i] = m.of(*s)
		}
	}
	return all
}

func (r runs) median(side string, m measure) float64 {
	var all []float64
	for _, v := range r.of(side, m) {
		if v > 0 {
			all = append(all, v)
		}
	}
	return spread.Median(all)
}

// best is the side with the best median.
func (r runs) best(m measure, sides ...string) string {
	best := sides[0]
	for _, s := range sides[1:] {
		if a, b := r.median(s, m), r.median(best, m); a > 0 && (b == 0 || m.higher == (a > b)) {
			best = s
		}
	}
	return best
}

// again is the name of a side's second run within a round.
func again(side string) string { return side + " again" }

// row compares two sides in one number. A bar of nil is none.
func (r runs) row(cell string, m measure, ours, reference string, bar *spread.Bar) row {
	over, under := r.of(ours, m), r.of(reference, m)
	out := row{Cell: cell, Measure: m.name, Unit: m.unit, Ours: ours, OursMedian: r.median(ours, m),
		Reference: reference, ReferenceMedian: r.median(reference, m), Bar: bar}
	out.Ratios = rounded(spread.Ratios(over, under))
	ratio := spread.Of(out.Ratios)
	out.Ratio = &ratio
	if _, measured := r[again(reference)]; measured {
		self := spread.Of(spread.Ratios(r.of(again(reference), m), under))
		out.Self = &self
	}
	if bar != nil {
		out.Met = bar.Judge(ratio, out.Self)
	}
	return out
}
