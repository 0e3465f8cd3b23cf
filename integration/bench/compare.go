package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
)

// spread is the distribution of one ratio over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"p10"` // the middle 80 % lie between Low and High
	High   float64 `json:"p90"`
}

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		x := share * float64(len(sorted)-1)
		i := int(x)
		if i == len(sorted)-1 {
			return sorted[i]
		}
		return sorted[i] + (x-float64(i))*(sorted[i+1]-sorted[i])
	}
	return spread{at(0.5), at(0.1), at(0.9)}
}

// ratios compares one number of two runs.
type ratios struct {
	Ours spread `json:"ours_over_fio"`
	Fio  spread `json:"fio_over_fio"`
	// Met: the median of ours lies inside the middle 80 % of fio over fio, or is
	// better.
	Met bool `json:"met"`
}

// comparison is one depth against one engine of fio.
type comparison struct {
	Engine  string     `json:"fio_engine"`
	Depth   int        `json:"depth"`
	Ours    sample     `json:"ours_medians"`
	Fio     sample     `json:"fio_medians"`
	IOPS    ratios     `json:"iops"`
	P50     ratios     `json:"p50"`
	P99     ratios     `json:"p99"`
	LoadAvg spread     `json:"load_average"`
	Rounds  [][]sample `json:"rounds"` // each: ours, fio, fio again
}

// compare runs the rounds. The order within a round rotates, so that none of
// the three always comes first.
func compare(c config, s *subject, file, engine string, depth int) (*comparison, error) {
	p := &comparison{Engine: engine, Depth: depth}
	var load []float64
	for round := range c.pairs {
		samples := make([]sample, 3)
		for turn := range samples {
			var err error
			who := (round + turn) % len(samples)
			if who == 0 {
				samples[who], err = s.read(depth, c.runtime, uint64(round))
			} else {
				samples[who], err = runFio(c, file, engine, depth, 1+2*round+who)
			}
			if err != nil {
				return nil, err
			}
		}
		load = append(load, loadAverage())
		p.Rounds = append(p.Rounds, samples)
		fmt.Fprintf(os.Stderr, "bench: depth %d, fio %s, round %d of %d: %.0f, %.0f, %.0f IOPS\n",
			depth, engine, round+1, c.pairs, samples[0].IOPS, samples[1].IOPS, samples[2].IOPS)
	}
	p.LoadAvg = spreadOf(load)
	p.Ours, p.Fio = p.medians(0), p.medians(1)
	p.IOPS = p.ratio(func(s sample) float64 { return s.IOPS })
	p.IOPS.Met = p.IOPS.Ours.Median >= p.IOPS.Fio.Low
	p.P50 = p.ratio(func(s sample) float64 { return s.P50NS })
	p.P50.Met = p.P50.Ours.Median <= p.P50.Fio.High
	p.P99 = p.ratio(func(s sample) float64 { return s.P99NS })
	p.P99.Met = p.P99.Ours.Median <= p.P99.Fio.High
	return p, nil
}

func (p *comparison) medians(who int) sample {
	of := func(number func(sample) float64) float64 {
		var all []float64
		for _, round := range p.Rounds {
			all = append(all, number(round[who]))
		}
		return spreadOf(all).Median
	}
	return sample{of(func(s sample) float64 { return s.IOPS }), of(func(s sample) float64 { return s.P50NS }),
		of(func(s sample) float64 { return s.P99NS })}
}

// ratio divides ours, and fio's second run, by fio's first run of each round.
func (p *comparison) ratio(number func(sample) float64) ratios {
	var ours, fio []float64
	for _, round := range p.Rounds {
		ours = append(ours, number(round[0])/number(round[1]))
		fio = append(fio, number(round[2])/number(round[1]))
	}
	return ratios{Ours: spreadOf(ours), Fio: spreadOf(fio)}
}

// byDepth orders comparisons as the tables show them.
func byDepth(a, b *comparison) int {
	return cmp.Or(-cmp.Compare(a.Depth, b.Depth), -cmp.Compare(a.Engine, b.Engine))
}
