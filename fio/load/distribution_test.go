package load

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
)

const (
	distributionBlocks = 10_240
	distributionDraws  = 20 * distributionBlocks
)

// shares are those of the accesses that go to the hottest 0 (one block), 0.1, 1,
// 10 and 50 % of the blocks.
type shares [5]float64

var shareParts = [...]float64{0, .001, .01, .1, .5}

func sharesOf(counts []int) (s shares) {
	counts = slices.Clone(counts)
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	total := 0
	for _, n := range counts {
		total += n
	}
	for i, part := range shareParts {
		for _, n := range counts[:max(1, int(part*float64(len(counts))))] {
			s[i] += float64(n) / float64(total)
		}
	}
	return s
}

func drawn(t testing.TB, d job.Distribution, seed uint64) (counts []int, from *distribution) {
	t.Helper()
	j := plain(true, 100, 4*kib)
	j.Distribution, j.NoRandomMap = d, true
	counts = make([]int, distributionBlocks)
	p := newPattern(t, j, distributionBlocks*4*kib, Endless, seed)
	var op Op
	for range distributionDraws {
		p.Next(0, &op)
		counts[op.Block]++
	}
	return counts, p.places[Read].(*anyPlaces).from
}

// distributions are fio's options, what they mean, and what fio 3.33 made of them:
// fio --ioengine=null --rw=randread --bs=4k --size=40m --io_size=800m
// --norandommap --random_distribution=... --write_iolog=...
var distributions = []struct {
	option string
	is     job.Distribution
	fio    shares
}{
	{"random", job.Distribution{Center: -1}, shares{.0002, .0019, .0167, .1415, .5891}},
	{"zipf:0.6", job.Distribution{Shape: job.Zipf, Parameter: 0.6, Center: -1}, shares{.0101, .0477, .1485, .4253, .8733}},
	{"zipf:0.99", job.Distribution{Shape: job.Zipf, Parameter: 0.99, Center: -1}, shares{.0985, .3019, .5343, .7787, .9679}},
	{"zipf:1.2", job.Distribution{Shape: job.Zipf, Parameter: 1.2, Center: -1}, shares{.2089, .5368, .7670, .9168, .9935}},
	{"pareto:0.2", job.Distribution{Shape: job.Pareto, Parameter: 0.2, Center: -1}, shares{.2781, .3838, .5316, .7454, .9577}},
	{"pareto:0.5", job.Distribution{Shape: job.Pareto, Parameter: 0.5, Center: -1}, shares{.0003, .0028, .0265, .2261, .7636}},
	{"normal:10", job.Distribution{Shape: job.Normal, Parameter: 10, Center: -1}, shares{.0007, .0061, .0571, .4783, 1}},
	{"zoned:60/10:30/20:8/30:2/40", job.Distribution{Shape: job.Zoned, Center: -1, Zones: []job.Zone{
		{AccessPercent: 60, SpacePercent: 10}, {AccessPercent: 30, SpacePercent: 20}, {AccessPercent: 8, SpacePercent: 30}, {AccessPercent: 2, SpacePercent: 40},
	}}, shares{.0008, .0073, .0695, .5990, .9652}},
}

// likeFio is our accesses by rank with fio's scatter: it multiplies the rank of a
// block by the golden ratio of 2^64, modulo their number, which gives some blocks
// two ranks and a fifth of them none. Ours gives each block one.
func likeFio(t *testing.T, d job.Distribution, seed uint64) []int {
	t.Helper()
	ours, from := drawn(t, d, seed)
	if d.Shape == job.Uniform || d.Shape == job.Zoned {
		return ours
	}
	hashed := make([]int, len(ours))
	for rank := range uint64(len(ours)) {
		hashed[rank*0x61c8864680b583eb%uint64(len(ours))] += ours[from.scattered(rank)]
	}
	return hashed
}

// TestDistributionsAsFio compares how uneven the accesses are.
func TestDistributionsAsFio(t *testing.T) {
	for _, row := range distributions {
		compareShares(t, row.option, sharesOf(likeFio(t, row.is, 1)), row.fio)
	}
}

func compareShares(t *testing.T, option string, ours, fio shares) {
	t.Helper()
	for i := range ours {
		if math.Abs(ours[i]-fio[i]) > .005+.02*fio[i] {
			t.Errorf("%s: the hottest %g %% get %.4f, of fio %.4f", option, 100*shareParts[i], ours[i], fio[i])
		}
	}
	t.Logf("%s: %.4f, fio %.4f", option, ours, fio)
}

// TestDistributionsLive runs the fio that is installed.
func TestDistributionsLive(t *testing.T) {
	fio, err := exec.LookPath("fio")
	if err != nil || testing.Short() {
		t.Skip("needs fio, and the long form")
	}
	for _, row := range distributions[3:5] {
		log := filepath.Join(t.TempDir(), "iolog")
		out, err := exec.Command(fio, "--name=a", "--filename=/nowhere", "--ioengine=null", "--rw=randread", "--bs=4k", "--size=40m",
			"--io_size=800m", "--norandommap", "--random_distribution="+row.option, "--write_iolog="+log).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		compareShares(t, row.option, sharesOf(likeFio(t, row.is, 7)), sharesOf(iolog(t, log)))
	}
}

// iolog counts the blocks of a log of fio's: lines with "read OFFSET LENGTH" at
// their ends.
func iolog(t *testing.T, path string) []int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, distributionBlocks)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 4 || string(fields[len(fields)-3]) != "read" {
			continue
		}
		offset, err := strconv.ParseInt(string(fields[len(fields)-2]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		counts[offset/(4*kib)]++
	}
	return counts
}

// Zones are where their shares of the space say.
func TestZones(t *testing.T) {
	counts, _ := drawn(t, distributions[len(distributions)-1].is, 3)
	from := 0
	for _, z := range []struct{ access, space float64 }{{.6, .1}, {.3, .2}, {.08, .3}, {.02, .4}} {
		to, sum := from+int(z.space*distributionBlocks), 0
		for _, n := range counts[from:to] {
			sum += n
		}
		from = to
		if share := float64(sum) / distributionDraws; math.Abs(share-z.access) > .006 {
			t.Errorf("the zone up to block %d gets %.4f of the accesses, not %.2f", to, share, z.access)
		}
	}
}

// A centre is where the hottest block lies.
func TestCenter(t *testing.T) {
	for _, center := range []float64{0, .25, 1} {
		counts, _ := drawn(t, job.Distribution{Shape: job.Zipf, Parameter: 1.2, Center: center}, 3)
		hottest := slices.Index(counts, slices.Max(counts))
		if want := min(int(center*distributionBlocks), distributionBlocks-1); hottest != want {
			t.Errorf("centre %g: block %d is the hottest, not %d", center, hottest, want)
		}
	}
}

// The sum by formula is the sum term by term.
func TestZeta(t *testing.T) {
	for _, theta := range []float64{.2, .6, .99, 1.2, 2.5} {
		for _, n := range []uint64{1, 2, 1000, 1001, 100_000} {
			sum := 0.0
			for i := n; i > 0; i-- {
				sum += math.Pow(float64(i), -theta)
			}
			if got := zeta(n, theta); math.Abs(got-sum) > 1e-9*sum {
				t.Errorf("zeta(%d, %g) is %.12f, not %.12f", n, theta, got, sum)
			}
		}
	}
}

// bssplit and bsrange, against the shares that the options mean.
func TestLengths(t *testing.T) {
	split := job.Blocks{MinBytes: 4 * kib, MaxBytes: 64 * kib, Split: []job.Share{{Bytes: 4 * kib, Percent: 10}, {Bytes: 64 * kib, Percent: 50}, {Bytes: 32 * kib, Percent: 40}}}
	for _, row := range []struct {
		name string
		is   job.Blocks
		want map[int64]float64
	}{
		{"bssplit=4k/10:64k/50:32k/40", split, map[int64]float64{4: .1, 64: .5, 32: .4}},
		{"bsrange=4k-16k", job.Blocks{MinBytes: 4 * kib, MaxBytes: 16 * kib}, map[int64]float64{4: .25, 8: .25, 12: .25, 16: .25}},
	} {
		l := newLengths(row.is, 1, 0)
		const n = 50_000
		got := map[int64]float64{}
		for range n {
			got[l.next(1<<40)/kib] += 1.0 / n
		}
		if len(got) != len(row.want) {
			t.Errorf("%s: %v", row.name, got)
		}
		for size, want := range row.want {
			// Five standard deviations are 1.1 %.
			if math.Abs(got[size]-want) > .011 {
				t.Errorf("%s: %d KiB have a share of %.3f, not %.2f", row.name, size, got[size], want)
			}
		}
	}
	if l := newLengths(split, 1, 0); l.next(4*kib-1) != 0 || l.next(4*kib) != 4*kib {
		t.Error("a length that does not fit")
	}
}
