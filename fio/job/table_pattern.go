package job

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// blockBytesMax bounds one transfer.
const blockBytesMax = 1 << 30

var modeWords = []word[mode]{
	{"read", mode{reads: true}},
	{"write", mode{writes: true}},
	{"randread", mode{reads: true, random: true}},
	{"randwrite", mode{writes: true, random: true}},
	{"rw", mode{reads: true, writes: true}},
	{"readwrite", mode{reads: true, writes: true}},
	{"randrw", mode{reads: true, writes: true, random: true}},
}

var shapeWords = []word[Shape]{{"random", Uniform}, {"zipf", Zipf}, {"pareto", Pareto}, {"normal", Normal}, {"zoned", Zoned}}

var submitWords = []word[bool]{{"inline", false}, {"offload", true}}

var patternOptions = []Option{
	{Name: "rw", Aliases: []string{"readwrite"}, Group: "Pattern", Form: "read|write|randread|randwrite|rw|randrw[:N]", Default: "read",
		Help:    "What the job does. With :N a random job goes N blocks on before it jumps, a sequential one leaves out N bytes after each block.",
		Differs: "No trims.",
		set:     setMode},
	{Name: "rwmixread", Group: "Pattern", Form: "PERCENT", Default: "50",
		Help: "Share of reads among the operations of rw and randrw.",
		set:  countTo(func(d *draft) *int { return &d.ReadPercent }, 0, 100)},
	{Name: "rwmixwrite", Group: "Pattern", Form: "PERCENT", Default: "50",
		Help: "The same, said of the writes.",
		set: func(d *draft, text string) error {
			n, err := number(text, 0, 100)
			d.ReadPercent = 100 - int(n)
			return err
		}},
	{Name: "bs", Aliases: []string{"blocksize"}, Group: "Pattern", Form: "SIZE[,SIZE]", Default: "4096",
		Help: "Block size, of reads and of writes; a third value, for trims, is ignored.",
		set:  sizesTo(pairTo(func(d *draft) *[2]int64 { return &d.sizes }, 1, blockBytesMax))},
	{Name: "bsrange", Aliases: []string{"blocksize_range"}, Group: "Pattern", Form: "MIN-MAX[,MIN-MAX]",
		Help: "Block sizes drawn evenly between two, in steps of the smaller one; rules over bs.",
		set:  sizesTo(setRanges)},
	{Name: "bssplit", Group: "Pattern", Form: "SIZE/PERCENT:SIZE/PERCENT...[,...]",
		Help:    "Block sizes by their shares; those without a share divide what is left. Rules over bsrange and bs.",
		Differs: "The shares must sum to 100; fio gives a rest to the last size.",
		set:     sizesTo(setSplits)},
	{Name: "ba", Aliases: []string{"blockalign"}, Group: "Pattern", Form: "SIZE[,SIZE]", Default: "the smallest block size",
		Help: "Random offsets are multiples of this. Turns norandommap on.",
		set:  pairTo(func(d *draft) *[2]int64 { return &d.aligns }, 1, blockBytesMax)},
	{Name: "iodepth", Group: "Pattern", Form: "N", Default: "1",
		Help: "Operations that one worker keeps in flight; it counts as 1 with psync, unless io_submit_mode=offload.",
		set:  countTo(func(d *draft) *int { return &d.IODepth }, 1, 65536)},
	{Name: "io_submit_mode", Group: "Pattern", Form: listOf(submitWords), Default: "inline",
		Help: "Whether the worker itself submits, or others do, so that a slow submission holds up no later one.",
		set:  wordTo(func(d *draft) *bool { return &d.Offload }, submitWords)},
	{Name: "number_ios", Group: "Pattern", Form: "N", Default: "0, no bound",
		Help: "End after so many operations, if nothing else ended the job before.",
		set:  longTo(func(d *draft) *int64 { return &d.NumberIOs }, 0)},
	{Name: "random_distribution", Group: "Pattern", Form: "random|zipf:THETA|pareto:H|normal:PERCENT|zoned:PERCENT/PERCENT:...", Default: "random",
		Help:    "Which blocks random I/O favours. A second number of zipf, pareto and normal, 0 to 1, says where the hot place lies. A zone is a share of the accesses and the share of the space that they go to. All but random turn norandommap on.",
		Differs: "The same for reads and writes; no zoned_abs.",
		set:     setDistribution},
	{Name: "norandommap", Group: "Pattern", Form: "0|1", flag: true, Default: "0",
		Help: "Random offsets may repeat before every block has been visited.",
		set:  flagTo(func(d *draft) *bool { return &d.NoRandomMap })},
	{Name: "randrepeat", Aliases: []string{"allrandrepeat"}, Group: "Pattern", Form: "0|1", Default: "1",
		Help: "Draw the same numbers in every run.",
		set:  flagTo(func(d *draft) *bool { return &d.RandRepeat })},
	{Name: "randseed", Group: "Pattern", Form: "N", Default: "0x89",
		Help: "Seed of everything random.",
		set: into(func(d *draft) *uint64 { return &d.RandSeed }, func(text string) (uint64, error) {
			n, err := number(text, 0, math.MaxInt64)
			return uint64(n), err
		})},
	{Name: "buffer_compress_percentage", Group: "Pattern", Form: "PERCENT", Default: "0",
		Help: "How much of each payload compresses away.",
		set:  countTo(func(d *draft) *int { return &d.CompressPercent }, 0, 100)},
	{Name: "dedupe_percentage", Group: "Pattern", Form: "PERCENT", Default: "0",
		Help: "How many payloads equal an earlier one.",
		set:  countTo(func(d *draft) *int { return &d.DedupePercent }, 0, 100)},
	{Name: "refill_buffers", Group: "Pattern", Form: "0|1", flag: true, Default: "0",
		Help: "New payload for every write; verify turns it on.",
		set:  flagTo(func(d *draft) *bool { return &d.RefillBuffers })},
}

// sizesTo notes that block sizes were given.
func sizesTo(set func(*draft, string) error) func(*draft, string) error {
	return func(d *draft, text string) error {
		d.sizesSaid = true
		return set(d, text)
	}
}

func setMode(d *draft, text string) error {
	text, after, more := strings.Cut(text, ":")
	if strings.Contains(text, "trim") {
		return fmt.Errorf("%s: trims are not supported; use read, write, randread, randwrite, rw or randrw", text)
	}
	m, err := oneOf(text, modeWords)
	if err != nil {
		return err
	}
	d.mode, d.modeSaid, d.SequentialRun, d.SequentialSkip = m, true, 1, 0
	switch {
	case !more:
	case m.random:
		var n int64
		n, err = number(after, 1, math.MaxInt32)
		d.SequentialRun = int(n)
	default:
		d.SequentialSkip, err = number(after, 0, math.MaxInt64)
	}
	return err
}

func setRanges(d *draft, text string) error {
	return eachDirection(text, func(direction int, text string) (err error) {
		least, most, both := strings.Cut(text, "-")
		if !both {
			least, most, both = strings.Cut(text, ":")
		}
		if !both {
			return fmt.Errorf("%q is not a range; write it like 4k-64k", text)
		}
		var b Blocks
		if b.MinBytes, err = number(least, 1, blockBytesMax); err != nil {
			return err
		}
		if b.MaxBytes, err = number(most, 1, blockBytesMax); err != nil {
			return err
		}
		if b.MinBytes > b.MaxBytes { // fio takes either order
			b.MinBytes, b.MaxBytes = b.MaxBytes, b.MinBytes
		}
		d.ranges[direction] = b
		return nil
	})
}

func setSplits(d *draft, text string) error {
	return eachDirection(text, func(direction int, text string) (err error) {
		d.splits[direction], err = split(text)
		return err
	})
}

// sharesMax is fio's bound of a bssplit.
const sharesMax = 64

func split(text string) ([]Share, error) {
	var shares []Share
	sum, open := 0.0, 0
	for part := range strings.SplitSeq(text, ":") {
		size, percent, _ := strings.Cut(part, "/")
		n, err := number(size, 1, blockBytesMax)
		if err != nil {
			return nil, err
		}
		s := Share{Bytes: n, Percent: -1}
		if percent == "" {
			open++
		} else {
			p, err := strconv.Atoi(percent)
			if err != nil || p < 0 || p > 100 {
				return nil, fmt.Errorf("%q is not a share from 0 to 100", percent)
			}
			s.Percent = float64(p)
			sum += s.Percent
		}
		shares = append(shares, s)
	}
	switch {
	case len(shares) > sharesMax:
		return nil, fmt.Errorf("%d sizes; at most %d", len(shares), sharesMax)
	case sum > 100 || sum < 100 && open == 0:
		return nil, fmt.Errorf("the shares sum to %g, not to 100", sum)
	}
	for i := range shares {
		if shares[i].Percent < 0 {
			shares[i].Percent = (100 - sum) / float64(open)
		}
	}
	return shares, nil
}

func setDistribution(d *draft, text string) error {
	name, after, more := strings.Cut(text, ":")
	if name == "zoned_abs" {
		return errors.New("zoned_abs is not supported; use zoned with percentages")
	}
	shape, err := oneOf(name, shapeWords)
	if err != nil {
		return err
	}
	made := Distribution{Shape: shape, Center: -1}
	switch {
	case shape == Zoned:
		made.Zones, err = zones(after)
	case shape == Uniform && more:
		return errors.New("random takes no parameter")
	case shape != Uniform:
		err = setParameter(&made, after, more)
	}
	if err == nil {
		d.Distribution = made
	}
	return err
}

func setParameter(made *Distribution, text string, given bool) (err error) {
	parameter, center, centered := strings.Cut(text, ":")
	made.Parameter = map[Shape]float64{Zipf: zipfThetaDefault, Pareto: paretoDefault}[made.Shape]
	if given {
		if made.Parameter, err = decimal(parameter); err != nil {
			return err
		}
	}
	if centered {
		if made.Center, err = decimal(center); err != nil {
			return err
		}
		if made.Center < 0 || made.Center > 1 {
			return fmt.Errorf("the hot place %g is outside 0 to 1", made.Center)
		}
	}
	p := made.Parameter
	switch {
	case made.Shape == Zipf && (p <= 0 || p == 1):
		return fmt.Errorf("zipf:%g: theta must be over 0, and not 1", p)
	case made.Shape == Pareto && (p <= 0 || p >= 1):
		return fmt.Errorf("pareto:%g: the power must lie between 0 and 1", p)
	case made.Shape == Normal && (p < 0 || p >= 100):
		return fmt.Errorf("normal:%g: the deviation must be at least 0 and under 100 percent", p)
	}
	return nil
}

// zones reads 60/10:30/20:10/70: shares of the accesses, and of the space.
func zones(text string) ([]Zone, error) {
	var made []Zone
	accesses, space := 0.0, 0.0
	for part := range strings.SplitSeq(text, ":") {
		left, right, both := strings.Cut(part, "/")
		a, err := decimal(left)
		s, err2 := decimal(right)
		if !both || err != nil || err2 != nil || a < 0 || s <= 0 {
			return nil, fmt.Errorf("%q is not a zone; write it like 60/10", part)
		}
		accesses, space = accesses+a, space+s
		made = append(made, Zone{a, s})
	}
	if math.Abs(accesses-100) > 1e-6 || math.Abs(space-100) > 1e-6 {
		return nil, fmt.Errorf("the zones sum to %g%% of the accesses and %g%% of the space; both must be 100", accesses, space)
	}
	return made, nil
}
