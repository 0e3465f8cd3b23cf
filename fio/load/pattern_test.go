package load

import (
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
	"pgregory.net/rapid"
)

const kib = 1 << 10

// plain is a job on one fixed block size.
func plain(random bool, readPercent int, bs int64) *job.Job {
	b := job.Blocks{MinBytes: bs, MaxBytes: bs, AlignBytes: bs}
	return &job.Job{
		Reads: readPercent > 0, Writes: readPercent < 100, Random: random, ReadPercent: readPercent,
		SequentialRun: 1, Blocks: [2]job.Blocks{b, b}, Distribution: job.Distribution{Center: -1}, RandRepeat: true,
	}
}

func newPattern(t rapid.TB, j *job.Job, space, total int64, seed uint64) *Pattern {
	t.Helper()
	p, err := NewPattern(j, space, total, seed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ops are the next n ops of a source that is never told of an end, fewer if it ends.
func ops(t rapid.TB, s Source, n int) []Op {
	t.Helper()
	var all []Op
	for range n {
		var op Op
		switch s.Next(0, &op) {
		case End:
			return all
		case Wait:
			t.Fatalf("waits after %d ops", len(all))
		}
		all = append(all, op)
	}
	return all
}

func TestSequential(t *testing.T) {
	p := newPattern(t, plain(false, 100, 4*kib), 18*kib, 28*kib, 1)
	var offsets []int64
	for _, op := range ops(t, p, 100) {
		if op.Kind != Read || op.Bytes != 4*kib || op.IntendedNS != AtOnce || int64(op.Block) != op.Offset/(4*kib) {
			t.Errorf("%+v", op)
		}
		offsets = append(offsets, op.Offset/kib)
	}
	// The 2 KiB at the end hold no block.
	if want := []int64{0, 4, 8, 12, 0, 4, 8}; !slices.Equal(offsets, want) {
		t.Errorf("offsets in KiB %v, not %v", offsets, want)
	}
}

func TestSequentialSkip(t *testing.T) {
	j := plain(false, 100, 4*kib)
	j.SequentialSkip = 8 * kib
	var offsets []int64
	for _, op := range ops(t, newPattern(t, j, 32*kib, Endless, 1), 4) {
		offsets = append(offsets, op.Offset/kib)
	}
	if want := []int64{0, 12, 24, 0}; !slices.Equal(offsets, want) {
		t.Errorf("offsets in KiB %v, not %v", offsets, want)
	}
}

// Mixed sequential load goes on where the same direction stopped.
func TestSequentialBothWays(t *testing.T) {
	at := [2]int64{}
	for _, op := range ops(t, newPattern(t, plain(false, 50, 4*kib), 1<<20, 1<<20, 3), 1000) {
		if op.Offset != at[op.Kind] {
			t.Fatalf("%v at %d, not at %d", op.Kind, op.Offset, at[op.Kind])
		}
		at[op.Kind] += int64(op.Bytes)
	}
	if at[Read]+at[Write] != 1<<20 || at[Read] == 0 || at[Write] == 0 {
		t.Errorf("read %d, written %d", at[Read], at[Write])
	}
}

// Every block comes once in each pass, and passes differ.
func TestRandomMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 700).Draw(t, "blocks")
		readPercent := rapid.SampledFrom([]int{0, 30, 100}).Draw(t, "rwmixread")
		p := newPattern(t, plain(true, readPercent, 512), int64(blocks)*512+511, Endless, rapid.Uint64().Draw(t, "seed"))
		var passes [2][]Op
		for i := range passes {
			passes[i] = ops(t, p, blocks)
			seen := make([]bool, blocks)
			for _, op := range passes[i] {
				if seen[op.Block] {
					t.Fatalf("pass %d has block %d twice", i, op.Block)
				}
				seen[op.Block] = true
			}
		}
		if blocks > 50 && slices.Equal(passes[0], passes[1]) {
			t.Fatal("both passes have the same order")
		}
	})
}

// With mixed lengths a pass covers every unit once, and nothing twice.
func TestRandomMapMixedLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := plain(true, 0, 512)
		if rapid.Bool().Draw(t, "split") {
			j.Blocks[Write] = job.Blocks{MinBytes: 512, MaxBytes: 4096, AlignBytes: 512,
				Split: []job.Share{{Bytes: 512, Percent: 20}, {Bytes: 4096, Percent: 50}, {Bytes: 1536, Percent: 30}}}
		} else {
			j.Blocks[Write].MaxBytes = 512 * rapid.Int64Range(2, 9).Draw(t, "largest")
		}
		units := rapid.IntRange(10, 500).Draw(t, "units")
		p := newPattern(t, j, int64(units)*512, Endless, rapid.Uint64().Draw(t, "seed"))
		seen, left := make([]bool, units), units
		for left > 0 {
			op := ops(t, p, 1)[0]
			if op.Offset%512 != 0 || op.Bytes <= 0 || op.Bytes%512 != 0 || int64(op.Bytes) > j.Blocks[Write].MaxBytes {
				t.Fatalf("%+v", op)
			}
			for u := op.Offset / 512; u < (op.Offset+int64(op.Bytes))/512; u++ {
				if seen[u] {
					t.Fatalf("unit %d twice in a pass", u)
				}
				seen[u] = true
				left--
			}
		}
	})
}

// Whatever the job, ops lie within the space, are aligned, and sum to the total.
func TestPatternStaysInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := plain(rapid.Bool().Draw(t, "random"), rapid.IntRange(0, 100).Draw(t, "rwmixread"), 4*kib)
		j.Blocks[Read].MaxBytes = 4 * kib * rapid.Int64Range(1, 5).Draw(t, "largest read")
		j.Blocks[Write].MinBytes = 512 * rapid.Int64Range(1, 8).Draw(t, "smallest write")
		j.Blocks[Write].AlignBytes = j.Blocks[Write].MinBytes
		j.NoRandomMap = rapid.Bool().Draw(t, "norandommap")
		j.SequentialRun = rapid.IntRange(1, 5).Draw(t, "run")
		j.Distribution = rapid.SampledFrom([]job.Distribution{
			{Center: -1},
			{Shape: job.Zipf, Parameter: 1.2, Center: -1},
			{Shape: job.Zipf, Parameter: 0.6, Center: 0.5},
			{Shape: job.Pareto, Parameter: 0.2, Center: -1},
			{Shape: job.Normal, Parameter: 20, Center: 1},
			{Shape: job.Zoned, Zones: []job.Zone{{AccessPercent: 60, SpacePercent: 10}, {AccessPercent: 40, SpacePercent: 90}}, Center: -1},
		}).Draw(t, "distribution")
		space := rapid.Int64Range(20*kib, 4<<20).Draw(t, "space")
		total := rapid.Int64Range(1, 4<<20).Draw(t, "total")
		p := newPattern(t, j, space, total, rapid.Uint64().Draw(t, "seed"))
		sum, last := int64(0), int64(0)
		for _, op := range ops(t, p, 1<<20) {
			b := j.Blocks[op.Kind]
			bytes := int64(op.Bytes)
			if op.Offset < 0 || op.Offset+bytes > space || bytes < 1 || bytes > b.MaxBytes {
				t.Fatalf("%+v of a space of %d", op, space)
			}
			sum, last = sum+bytes, bytes
		}
		if sum < total || sum-last >= total {
			t.Fatalf("%d bytes asked for, the last op %d, not %d", sum, last, total)
		}
	})
}

func TestReadPercent(t *testing.T) {
	reads := 0
	const n = 20_000
	for _, op := range ops(t, newPattern(t, plain(true, 70, 4*kib), n*4*kib, Endless, 5), n) {
		if op.Kind == Read {
			reads++
		}
	}
	// Five standard deviations of the binomial are 1.6 %.
	if share := float64(reads) / n; share < .684 || share > .716 {
		t.Errorf("%.3f of the ops are reads, not 0.7", share)
	}
}

// A seed decides everything; other seeds, workers and jobs differ.
func TestSeeds(t *testing.T) {
	j := plain(true, 50, 4*kib)
	j.Blocks[Read].MaxBytes = 16 * kib
	draw := func(c Config, index int) []Op {
		j.Index, c.SpaceBytes, c.TotalBytes = index, 1<<20, Endless
		s, err := New(j, c)
		if err != nil {
			t.Fatal(err)
		}
		return ops(t, s, 100)
	}
	first := draw(Config{}, 0)
	if !slices.Equal(first, draw(Config{Fresh: 9}, 0)) {
		t.Error("with randrepeat two runs differ")
	}
	if slices.Equal(first, draw(Config{Worker: 1}, 0)) || slices.Equal(first, draw(Config{}, 1)) {
		t.Error("two workers have the same load")
	}
	j.RandRepeat = false
	if slices.Equal(first, draw(Config{Fresh: 9}, 0)) {
		t.Error("without randrepeat a fresh number changes nothing")
	}
}

func TestPatternErrors(t *testing.T) {
	if _, err := NewPattern(plain(true, 100, 4*kib), 4*kib-1, Endless, 0); err == nil {
		t.Error("a space smaller than a block is accepted")
	}
}

func TestNumberIOs(t *testing.T) {
	for _, count := range []int{2, 7} {
		j := plain(true, 100, 4*kib)
		j.NumberIOs, j.Namespaces = int64(count), 3
		s, err := New(j, Config{SpaceBytes: 1 << 20, TotalBytes: Endless})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(ops(t, s, 100)); n != count {
			t.Errorf("%d ops, not %d", n, count)
		}
	}
}
