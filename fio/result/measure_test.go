package result

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine/machine"
)

// TestRangesAgainstBins: the classes of latency in fio's sample are what our classes
// make of fio's bins. A bin that lies across a limit may count on either side.
func TestRangesAgainstBins(t *testing.T) {
	_, doc := readSample(t, sample)
	for _, j := range doc.Jobs {
		var least, most [rangeCount]float64
		all := 0.0
		for _, s := range []*Stats{j.Read, j.Write, j.Trim} {
			all += float64(s.IOs)
			for _, b := range s.Clat.Bins {
				// A bucket is less than 1.6 % wide.
				low, high := rangeIndex(b.MidpointNS-b.MidpointNS/126), rangeIndex(b.MidpointNS+b.MidpointNS/126)
				if low == high {
					least[low] += float64(b.Count)
				}
				most[low] += float64(b.Count)
				if high != low {
					most[high] += float64(b.Count)
				}
			}
		}
		i := 0
		for _, d := range []Distribution{j.LatencyNS, j.LatencyUS, j.LatencyMS} {
			for _, share := range d {
				// fio shows at least 0.01 of what is not empty.
				low, high := 100*least[i]/all-0.001, max(100*most[i]/all, 0.01)+0.001
				if p := float64(share.Percent); p < low || p > high {
					t.Errorf("%s: class %d (%s) has %v %%, bins say %v to %v", j.Name, i, share.Label, p, low, high)
				}
				i++
			}
		}
		if i != rangeCount {
			t.Fatalf("%d classes, want %d", i, rangeCount)
		}
	}
}

func TestClasses(t *testing.T) {
	for depth, want := range map[int]string{0: "1", 1: "1", 2: "2", 3: "2", 4: "4", 7: "4", 8: "8", 31: "16", 32: "32", 63: "32", 64: ">=64", 4096: ">=64"} {
		if got := depthLabels[depthIndex(depth)]; got != want {
			t.Errorf("depth %d is in %s, want %s", depth, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 1: "4", 4: "4", 5: "8", 8: "8", 9: "16", 16: "16", 17: "32", 32: "32", 33: "64", 64: "64", 65: ">=64", 4096: ">=64"} {
		if got := batchLabels[batchIndex(n)]; got != want {
			t.Errorf("a batch of %d is in %s, want %s", n, got, want)
		}
	}
	for ns, want := range map[int64]int{0: 0, 1: 0, 2: 1, 3: 1, 999: 9, 1000: 10, 1999: 10, 2000: 11, 999_999: 19, 1e6: 20, 1_999_999_999: 30, 2e9: 31, math.MaxInt64: 31} {
		if got := rangeIndex(ns); got != want {
			t.Errorf("%d ns is in class %d, want %d", ns, got, want)
		}
	}
}

// TestSeries compares with sums by hand, over more intervals than a series holds.
func TestSeries(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var whole, left, right series
	var ios, bytes, sum, last int64
	for i := range 20_000 {
		at, size, took := rnd.Int64N(3*seriesPointsMax*SeriesIntervalNS), rnd.Int64N(1<<20), rnd.Int64N(1e9)
		ios, bytes, sum, last = ios+1, bytes+size, sum+took, max(last, at)
		whole.add(at, size, took)
		if i < 100 {
			left.add(at/1000, size, took) // stays fine, until the merge
		} else {
			right.add(at, size, took)
		}
	}
	left.merge(&right)
	for name, s := range map[string]*series{"whole": &whole, "merged": &left} {
		var p point
		for _, q := range s.points[:s.used] {
			p.merge(q)
		}
		if int64(p.ios) != ios || int64(p.bytes) != bytes || p.latencySumNS != sum {
			t.Errorf("%s: %+v, want %d I/Os, %d bytes, %d ns", name, p, ios, bytes, sum)
		}
		if s.fold != 2 || s.used != int(last/(SeriesIntervalNS<<2))+1 {
			t.Errorf("%s: fold %d, %d intervals used", name, s.fold, s.used)
		}
	}
}

// TestIntervals: an idle interval is a sample of 0, and one that is cut short is none.
func TestIntervals(t *testing.T) {
	var s series
	for _, ms := range []int64{100, 200, 1100, 1900, 2100} { // intervals 0, 0, 2, 3, 4
		s.add(ms*1e6, 512<<10, 1)
	}
	to := Stats{IOs: 5}
	s.samples(&to, 2300) // four whole intervals
	if to.BWSamples != 4 || *to.BWMin != 0 || *to.BWMax != 2048 || *to.BWMean != 1024 || *to.IOPSMax != 4 || *to.IOPSMean != 2 {
		t.Errorf("%+v: %d..%d KiB/s, mean %v", to, *to.BWMin, *to.BWMax, *to.BWMean)
	}
	if want := math.Sqrt(4.0 * 2 / 3); math.Abs(float64(*to.IOPSStddev)-want) > 1e-9 { // 4, 0, 2, 2
		t.Errorf("deviation %v, want %v", *to.IOPSStddev, want)
	}
}

// TestOpenLoop: latency from the intended start, service time beside it.
func TestOpenLoop(t *testing.T) {
	run := NewRun(Config{}, time.Now())
	w := run.AddWorker(WorkerConfig{Directions: []Direction{Read}, OpenLoop: true, Lat: true, Clat: true, Percentiles: percentiles})
	w.Begin(0)
	// The drive stands still for a second: what was due meanwhile waits for it.
	for i := range int64(1000) {
		due := i * 1e6
		w.Record(IO{Direction: Read, Bytes: 1, IntendedNS: due, IssuedNS: 1e9, SubmittedNS: 1e9, DoneNS: 1e9 + 100_000})
	}
	w.End(2e9)
	j := run.Document(2e9).Jobs[0]
	service := j.Spillway.Read.ServiceNS
	if !j.Spillway.OpenLoop || *service.Max != 100_000 || *service.Min != 100_000 || *j.Read.Clat.Max != 100_000 {
		t.Errorf("service time %+v", service)
	}
	if *j.Read.Lat.Max != 1e9+100_000 || *j.Read.Lat.Min != 1_100_000 || math.Abs(float64(*j.Read.Lat.Mean)-500.6e6) > 1 {
		t.Errorf("latency %d..%d, mean %v", *j.Read.Lat.Min, *j.Read.Lat.Max, *j.Read.Lat.Mean)
	}
}

// TestGroups: workers that report as a group are one entry, others one each.
func TestGroups(t *testing.T) {
	run := NewRun(Config{}, time.Now())
	for i, c := range []WorkerConfig{{Job: "a", Group: 0, Grouped: true}, {Job: "a", Group: 0, Grouped: true}, {Job: "b", Group: 1}, {Job: "b", Group: 1}, {Job: "c", Group: 0, Grouped: true}} {
		c.Lat = true
		w := run.AddWorker(c)
		w.Record(IO{Direction: Read, Bytes: 77, DoneNS: 1}) // before the begin: the ramp
		w.Begin(0)
		w.Record(IO{Direction: Read, Bytes: int64(i + 1), DoneNS: int64(i + 1)})
		w.End(int64(i+1) * 1e9)
	}
	doc := run.Document(9e9)
	var names []string
	for _, j := range doc.Jobs {
		names = append(names, j.Name)
	}
	if strings.Join(names, "") != "abb" {
		t.Fatalf("entries %v", names)
	}
	a := doc.Jobs[0]
	if a.Spillway.Workers != 3 || a.Read.IOs != 3 || a.Read.Bytes != 1+2+5 || a.RuntimeMS != 1000+2000+5000 || a.Read.RuntimeMS != 5000 || *a.Read.Lat.Max != 5 {
		t.Errorf("%+v, reads %+v", a, a.Read)
	}
}

// TestUsageIsShared: two entries at once share the process by I/Os; one that runs
// alone has all of it.
func TestUsageIsShared(t *testing.T) {
	entry := func(first, last int64, ios uint64) *merged {
		read := &tally{}
		read.outcomes[Done] = ios
		return &merged{directions: [directionCount]*tally{read}, firstNS: first, lastNS: last, usage: Usage{User: 100 * time.Second, Switches: 1000}}
	}
	all := []*merged{entry(0, 10, 300), entry(5, 12, 100), entry(12, 20, 1)}
	shareUsage(all)
	for i, want := range []time.Duration{75 * time.Second, 25 * time.Second, 100 * time.Second} {
		if got := all[i].usage.User; got != want {
			t.Errorf("entry %d has %v, want %v", i, got, want)
		}
	}
	if all[1].usage.Switches != 250 {
		t.Errorf("%d switches", all[1].usage.Switches)
	}
}

// TestLateCountsForTheGate: late reads are in no percentile, but over the budget.
func TestLateCountsForTheGate(t *testing.T) {
	run := NewRun(Config{}, time.Now())
	w := run.AddWorker(WorkerConfig{})
	w.Begin(0)
	for i := range 1000 {
		io := IO{Direction: Read, DoneNS: 1e6}
		if i < 100 {
			io.Outcome = Late
		}
		w.Record(io)
	}
	s := run.Sum(Read, nil)
	if s.Lat.Count != 900 || s.Lat.MaxNS != 1e6 {
		t.Fatalf("%d latencies", s.Lat.Count)
	}
	if v := s.Judge(5e6); v.Judgement.String() != "over budget" || v.Samples != 1000 {
		t.Errorf("%v: %s", v.Judgement, v.Reason)
	}
	if p := run.Point(3, 5e6); p.Verdict != "over budget" || p.Depth != 3 || p.P50NS != 1e6 {
		t.Errorf("%+v", p)
	}
}

// TestStatesStayBounded: of many states every second one is left out.
func TestStatesStayBounded(t *testing.T) {
	run := NewRun(Config{}, time.Now())
	for i := range 5 * statusMax {
		run.keepStatus(Status{ElapsedMS: int64(i)})
	}
	states := run.Document(0).Spillway.Status
	if len(states) > statusMax || len(states) < statusMax/2 {
		t.Fatalf("%d states", len(states))
	}
	step := states[1].ElapsedMS
	for i, s := range states {
		if s.ElapsedMS != int64(i)*step {
			t.Fatalf("state %d is of %d ms, want steps of %d", i, s.ElapsedMS, step)
		}
	}
}

// TestTick: text goes out, JSON is kept for the one document.
func TestTick(t *testing.T) {
	run, _ := sampleRun(t)
	var text, json bytes.Buffer
	if err := run.Tick(&text, Formats{Normal: true}); err != nil || !strings.Contains(text.String(), "read: IOPS=") {
		t.Errorf("%v, %q", err, text.String())
	}
	if err := run.Tick(&json, Formats{Plus: true}); err != nil || json.Len() != 0 {
		t.Errorf("%v, %q", err, json.String())
	}
	doc, _, _ := conduct(t, run, func() error { return nil })
	if len(doc.Spillway.Status) != 1 || doc.Spillway.Status[0].Jobs[0].Read.IOs != 2000 {
		t.Errorf("%+v", doc.Spillway.Status)
	}
}

// TestDocumentWhileRecording is for the race detector.
func TestDocumentWhileRecording(t *testing.T) {
	run := NewRun(Config{}, time.Now())
	var all sync.WaitGroup
	for range 2 {
		w := run.AddWorker(WorkerConfig{Grouped: true, Lat: true, Percentiles: percentiles})
		all.Go(func() {
			w.Begin(run.NowNS())
			for i := range int64(2000) {
				w.Submit(1, 1)
				w.Record(IO{Direction: Direction(i % 2), Bytes: 1, DoneNS: i})
				w.Complete(1)
			}
			w.End(run.NowNS())
		})
	}
	for range 5 {
		for _, s := range []*Stats{run.Document(run.NowNS()).Jobs[0].Read} {
			for _, p := range s.Lat.Percentiles {
				if p.NS < *s.Lat.Min || p.NS > *s.Lat.Max {
					t.Errorf("P%v is %d in %d..%d", p.Percent, p.NS, *s.Lat.Min, *s.Lat.Max)
				}
			}
		}
	}
	all.Wait()
	if n := run.Document(run.NowNS()).Jobs[0].Read.IOs; n != 2000 {
		t.Errorf("%d reads, want 2000", n)
	}
}

// TestObserve watches a drive in a made-up sysfs.
func TestObserve(t *testing.T) {
	root := t.TempDir()
	put := func(path, content string) {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/self/mountinfo", "22 1 8:0 / / rw - ext4 /dev/sda rw\n")
	put("sys/dev/block/8:0/device/model", "ACME\n")
	put("sys/dev/block/8:0/stat", "10 1 0 100 20 2 0 200 0 1000 300\n")
	put("sys/dev/block/8:0/device/hwmon/hwmon0/temp1_input", "40000\n")
	run := NewRun(Config{}, time.Now())
	run.observe(machine.System{Root: root}, t.TempDir())
	put("sys/dev/block/8:0/stat", "15 4 0 107 31 2 0 200 0 1500 309\n")
	put("sys/dev/block/8:0/device/hwmon/hwmon0/temp1_input", "43000\n")
	doc := run.Document(run.observed.drives[0].sinceNS + 1e9)
	want := DiskUtil{Name: "8:0", ReadIOs: 5, WriteIOs: 11, ReadMerges: 3, ReadTicks: 7, InQueue: 9, Util: 50}
	if len(doc.DiskUtil) != 1 || doc.DiskUtil[0] != want {
		t.Errorf("%+v, want %+v", doc.DiskUtil, want)
	}
	m := doc.Spillway.Machine
	if len(m.Drives) != 1 || m.Drives[0].Model != "ACME" || *m.Drives[0].Before.TemperatureC != 40 || *m.Drives[0].After.TemperatureC != 43 ||
		m.Drives[0].After.WornPercent != nil || m.Drives[0].Rotational != nil || m.Places[0].FileSystem != "ext4" || m.MemoryBytes != nil {
		t.Errorf("%+v", m)
	}
}

// TestStartLikeFio: the lines before the first job, as fio 3.33 wrote them but for
// the last word.
func TestStartLikeFio(t *testing.T) {
	const fioWrote = `read: (g=0): rw=randread, bs=(R) 64.0KiB-64.0KiB, (W) 64.0KiB-64.0KiB, (T) 64.0KiB-64.0KiB, ioengine=io_uring, iodepth=2
...
write: (g=1): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1
fast: (g=3): rw=write, bs=(R) 1024KiB-1024KiB, (W) 1024KiB-1024KiB, (T) 1024KiB-1024KiB, ioengine=null, iodepth=1
fio-3.33
Starting 4 threads

`
	var b bytes.Buffer
	size := func(bytes int64) [2]int64 { return [2]int64{bytes, bytes} }
	if err := WriteStart(&b, "fio-3.33", []Start{{"read", 0, "randread", size(64 << 10), size(64 << 10), "io_uring", 2, 2},
		{"write", 1, "randwrite", size(4096), size(4096), "psync", 1, 1}, {"fast", 3, "write", size(1 << 20), size(1 << 20), "null", 1, 1}}); err != nil {
		t.Fatal(err)
	}
	if diff := firstDifference(b.String(), fioWrote); diff != "" {
		t.Error(diff)
	}
}
