package job

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/tiering/model"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// draft is a job while its options are read.
type draft struct {
	Job
	target     target
	sizes      [2]int64 // bs
	ranges     [2]Blocks
	splits     [2][]Share
	aligns     [2]int64
	mode       mode
	stonewall  bool
	newGroup   bool
	waitFor    string
	steadySaid bool
	sizesSaid  bool
	modeSaid   bool
	chatSaid   bool
	precision  model.Precision
	invalidate bool
}

// target is what a word of ioengine means.
type target struct {
	engine  Engine
	backend Backend
	fixed   bool // the word itself chooses the backend
}

// mode is what a word of rw means.
type mode struct{ reads, writes, random bool }

// fio's defaults that are no zero values.
const (
	blockBytesDefault = 4096
	randSeedDefault   = 0x89
	readPercentUsual  = 50
	zipfThetaDefault  = 1.1
	paretoDefault     = 0.2
)

var percentilesDefault = []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99}

// newDraft is a job without any option: all defaults.
func newDraft() *draft {
	d := &draft{Job: Job{
		NumJobs: 1, WaitFor: -1, Direct: true, Namespaces: 1,
		ReadPercent: readPercentUsual, SequentialRun: 1, RandSeed: randSeedDefault, RandRepeat: true, IODepth: 1, ThinkBlocks: 1,
		TraceFormat: "mooncake", TraceSpeed: 1,
		DoVerify: true, ClatPercentiles: true, Percentiles: percentilesDefault,
	}}
	d.sizes = [2]int64{blockBytesDefault, blockBytesDefault}
	d.mode = mode{reads: true}
	d.Distribution.Center = -1
	d.SteadyState = Steady{Criterion: SteadyIOPSSlope, Limit: 0.01, Percent: true, Interval: time.Second}
	d.Chat.Think = 1
	return d
}

// finish makes what depends on several options, and refuses what contradicts
// itself. It answers notes for the user.
func (d *draft) finish() (notes []string, err error) {
	d.Reads, d.Writes, d.Random = d.mode.reads, d.mode.writes, d.mode.random
	if d.Trace != "" || d.Chat.Sessions > 0 {
		d.Reads, d.Writes, d.Random = true, true, true
	}
	d.Engine = d.target.engine
	if d.target.fixed {
		d.Backend = d.target.backend
	}
	if err := d.finishModel(); err != nil {
		return nil, err
	}
	d.finishBlocks()
	for _, check := range []func(*draft) error{checkTarget, checkPattern, checkTime, checkRate, checkLoad, checkProof} {
		if err := check(d); err != nil {
			return nil, err
		}
	}
	if d.aligned() && d.Random && !d.NoRandomMap {
		notes = append(notes, "blockalign turns norandommap on, as in fio")
		d.NoRandomMap = true
	}
	if d.Distribution.Shape != Uniform {
		d.NoRandomMap = true
	}
	if d.Verify != CheckNone || d.CompressPercent > 0 {
		d.RefillBuffers = true
	}
	return notes, nil
}

// The tokens of a block unless block_tokens says else: for KV of a model, and what an
// id of the Mooncake traces covers.
const (
	modelTokensDefault = 64
	traceTokensDefault = trace.TokensPerBlock
)

// finishModel gives blocks the size that the model's KV has.
func (d *draft) finishModel() error {
	if d.BlockTokens == 0 {
		d.BlockTokens = traceTokensDefault
		if d.Model != "" {
			d.BlockTokens = modelTokensDefault
		}
	}
	switch {
	case d.Model == "" && d.precision != model.Unset:
		return errors.New("kv_precision needs kv_model")
	case d.Model == "":
		return nil
	case d.sizesSaid:
		return errors.New("kv_model sets the block size: leave out bs, bsrange and bssplit")
	}
	m, err := model.Find(d.Model)
	if err != nil {
		return fmt.Errorf("kv_model: %w", err)
	}
	size := m.BlockBytes(d.BlockTokens, d.precision)
	if size > blockBytesMax {
		return fmt.Errorf("a block of %d tokens of %s has %d bytes, more than %d: use fewer block_tokens", d.BlockTokens, d.Model, size, int64(blockBytesMax))
	}
	d.sizes = [2]int64{size, size}
	return nil
}

// finishBlocks: bssplit rules over bsrange, and that over bs, whatever their order.
func (d *draft) finishBlocks() {
	for i := range d.Blocks {
		b := &d.Blocks[i]
		switch {
		case d.splits[i] != nil:
			b.Split = d.splits[i]
			b.MinBytes = math.MaxInt64
			for _, share := range b.Split {
				b.MinBytes, b.MaxBytes = min(b.MinBytes, share.Bytes), max(b.MaxBytes, share.Bytes)
			}
		case d.ranges[i].MaxBytes > 0:
			*b = d.ranges[i]
		default:
			b.MinBytes, b.MaxBytes = d.sizes[i], d.sizes[i]
		}
		b.AlignBytes = b.MinBytes
		if d.aligns[i] > 0 && d.Random {
			b.AlignBytes = d.aligns[i]
		}
	}
}

// aligned reports whether blockalign differs from the block sizes.
func (d *draft) aligned() bool {
	return d.Blocks[Read].AlignBytes != d.Blocks[Read].MinBytes || d.Blocks[Write].AlignBytes != d.Blocks[Write].MinBytes
}
