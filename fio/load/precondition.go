package load

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
)

// PreconditionConfig says how a drive is brought to its steady state.
type PreconditionConfig struct {
	SpaceBytes int64 // of the range that is written; most of the drive, best
	Seed       uint64
	// Fills is how often the range is written in order. Default 2, as drives have
	// more flash than they say.
	Fills int
	// FillBytes is the length of those writes, default 1 MiB. BlockBytes is that of
	// the random ones, default 128 KiB; it should be the measured job's.
	FillBytes, BlockBytes int64
	// Round is the time over which one rate is taken. Default: a quarter of the
	// time of one fill, within 1 s and 1 minute.
	Round time.Duration
	// RoundsMax bounds the random writes, steady or not. Default 25.
	RoundsMax int
}

// The criterion of the SNIA Solid State Storage Performance Test Specification:
// over the last five rounds the largest and the smallest rate lie no more than
// 20 % of the mean apart, and the least-squares line through them changes by no
// more than 10 % of it.
const (
	steadyRounds       = 5
	steadyRangePercent = 20
	steadyLinePercent  = 10
)

// Stage is what a Precondition is at.
type Stage uint8

// Stages.
const (
	Filling   Stage = iota // writes in order
	Shuffling              // random writes, until the rate is steady
	Finished
)

var stageNames = [...]string{"writing in order", "writing at random", "finished"}

func (s Stage) String() string { return stageNames[s] }

// Precondition is the load that brings a drive to its steady state: its range is
// written in order, Fills times, then at random until the rate is steady or
// RoundsMax rounds have passed. Rates are those of the writes that ended well, at
// the times that Done is told.
type Precondition struct {
	config   PreconditionConfig
	stage    Stage
	fills    int // begun
	offset   int64
	random   anyPlaces
	lengths  *lengths
	inFlight int64

	begunNS    int64 // of the first fill, then of the newest round
	roundBytes int64
	rates      []float64 // bytes a second, of all rounds
	steady     bool
}

// NewPrecondition starts one.
func NewPrecondition(c PreconditionConfig) (*Precondition, error) {
	c.Fills = orDefault(c.Fills, 2)
	c.FillBytes = orDefault(c.FillBytes, 1<<20)
	c.BlockBytes = orDefault(c.BlockBytes, 128<<10)
	c.RoundsMax = orDefault(c.RoundsMax, 25)
	const sector = 4096
	c.SpaceBytes -= c.SpaceBytes % sector // the last write in order ends there
	if most := max(c.FillBytes, c.BlockBytes); c.SpaceBytes < most {
		return nil, fmt.Errorf("preconditioning writes %d bytes at once, and its range has %d: raise size", most, c.SpaceBytes)
	}
	n := uint64(c.SpaceBytes / c.BlockBytes)
	return &Precondition{
		config: c,
		fills:  1,
		random: anyPlaces{
			space: c.SpaceBytes, align: c.BlockBytes,
			from: newDistribution(job.Distribution{Center: -1}, n, c.Seed),
		},
		lengths: newLengths(job.Blocks{MinBytes: c.BlockBytes, MaxBytes: c.BlockBytes}, c.Seed, 0),
		begunNS: -1,
	}, nil
}

func orDefault[T int | int64](n, or T) T {
	if n <= 0 {
		return or
	}
	return n
}

// Next answers the next write.
func (p *Precondition) Next(nowNS int64, op *Op) Answer {
	if p.begunNS < 0 {
		p.begunNS = nowNS
	}
	var offset, bytes int64
	switch p.stage {
	case Finished:
		return End
	case Shuffling:
		offset, bytes = p.random.next(p.lengths)
	case Filling:
		if p.offset == p.config.SpaceBytes && p.fills == p.config.Fills {
			op.IntendedNS = AtOnce
			return Wait // for what is in flight
		}
		if p.offset == p.config.SpaceBytes {
			p.offset = 0
			p.fills++
		}
		offset, bytes = p.offset, min(p.config.FillBytes, p.config.SpaceBytes-p.offset)
		p.offset += bytes
	}
	p.inFlight++
	*op = Op{Kind: Write, Offset: offset, Bytes: int(bytes), Block: uint64(offset / bytes), IntendedNS: AtOnce}
	return Ready
}

// Done counts a write and judges the rounds that are over.
func (p *Precondition) Done(op *Op, outcome Outcome, nowNS int64) {
	p.inFlight--
	switch p.stage {
	case Filling:
		if p.inFlight == 0 && p.offset == p.config.SpaceBytes && p.fills == p.config.Fills {
			p.shuffle(nowNS)
		}
	case Shuffling:
		for p.stage == Shuffling && nowNS >= p.begunNS+p.config.Round.Nanoseconds() {
			p.endRound()
		}
		if outcome == OK {
			p.roundBytes += int64(op.Bytes)
		}
	}
}

// shuffle begins the random writes.
func (p *Precondition) shuffle(nowNS int64) {
	if p.config.Round <= 0 {
		fill := time.Duration(nowNS-p.begunNS) / time.Duration(p.config.Fills)
		p.config.Round = min(max(fill/4, time.Second), time.Minute)
	}
	p.stage, p.begunNS = Shuffling, nowNS
}

func (p *Precondition) endRound() {
	p.rates = append(p.rates, float64(p.roundBytes)/p.config.Round.Seconds())
	p.begunNS += p.config.Round.Nanoseconds()
	p.roundBytes = 0
	rangePercent, linePercent, ok := p.unsteadiness()
	p.steady = ok && rangePercent <= steadyRangePercent && linePercent <= steadyLinePercent
	if p.steady || len(p.rates) >= p.config.RoundsMax {
		p.stage = Finished
	}
}

// unsteadiness is the spread of the last rounds and the change of the line
// through them, in percent of their mean; false if there are too few, or nothing
// was written.
func (p *Precondition) unsteadiness() (rangePercent, linePercent float64, ok bool) {
	if len(p.rates) < steadyRounds {
		return 0, 0, false
	}
	last := p.rates[len(p.rates)-steadyRounds:]
	mean, slope := line(steadyRounds, func(i int) float64 { return last[i] })
	if mean <= 0 {
		return 0, 0, false
	}
	low, high := math.Inf(1), 0.0
	for _, r := range last {
		low, high = min(low, r), max(high, r)
	}
	return 100 * (high - low) / mean, 100 * math.Abs(slope) * (steadyRounds - 1) / mean, true
}

// PreconditionReport says how far a Precondition has come.
type PreconditionReport struct {
	Stage  Stage
	Fill   int // the one at work, from 1
	Round  time.Duration
	Rates  []float64 // bytes a second, one a round
	Steady bool
	// RangePercent and LinePercent are of the last five rounds; 0 before.
	RangePercent, LinePercent float64
}

// Report is for the goroutine that the Precondition belongs to.
func (p *Precondition) Report() PreconditionReport {
	r := PreconditionReport{Stage: p.stage, Fill: p.fills, Round: p.config.Round, Rates: append([]float64(nil), p.rates...), Steady: p.steady}
	r.RangePercent, r.LinePercent, _ = p.unsteadiness()
	return r
}

// String is one sentence for people.
func (r PreconditionReport) String() string {
	switch {
	case r.Stage == Filling:
		return fmt.Sprintf("%v, time %d", r.Stage, r.Fill)
	case r.Steady:
		return fmt.Sprintf("steady after %d rounds of %v: the last %d lie within %.1f %% of their mean, their line changes by %.1f %%",
			len(r.Rates), r.Round, steadyRounds, r.RangePercent, r.LinePercent)
	case r.Stage == Finished:
		return fmt.Sprintf("not steady after %d rounds of %v: the last %d lie within %.1f %% of their mean (at most %d), their line changes by %.1f %% (at most %d)",
			len(r.Rates), r.Round, steadyRounds, r.RangePercent, steadyRangePercent, r.LinePercent, steadyLinePercent)
	}
	return fmt.Sprintf("%v, %d rounds of %v", r.Stage, len(r.Rates), r.Round)
}
