package page

import (
	"bytes"
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/chart/charttest"
	"github.com/spillway-kv/spillway/fio/compare"
	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/sweep"
)

var keep = flag.String("keep", "", "folder to keep the pages in, to look at")

var percentiles = []float64{1, 50, 90, 99, 99.9, 99.99}

// sampleRun is a run of one open-loop mixed job, with reads of about 4 ms.
func sampleRun(seed uint64) *result.Run {
	r := result.NewRun(result.Config{Version: "spillway-test", GlobalOptions: result.Options{{Name: "bs", Value: "128k"}, {Name: "direct", Value: "1"}}}, time.Unix(1_800_000_000, 0))
	w := r.AddWorker(result.WorkerConfig{Job: "kv-read <&>", Depth: 16, BlockBytes: 128 << 10, OpenLoop: true, Target: "raw, io_uring, direct, ext4",
		Options: result.Options{{Name: "rw", Value: "randrw"}, {Name: "time_based"}}, Percentiles: percentiles, Clat: true, Lat: true})
	rnd := rand.New(rand.NewPCG(seed, 1))
	w.Begin(0)
	for i := range int64(12_000) {
		at := i * 1e6
		took := int64(3e6 * math.Exp(rnd.NormFloat64()*0.35))
		if rnd.IntN(500) == 0 {
			took += int64(rnd.ExpFloat64() * 12e6)
		}
		direction := result.Read
		if i%5 == 0 {
			direction, took = result.Write, took/3
		}
		waited := int64(0)
		if i%3000 > 2950 {
			waited = (3000 - i%3000) * 1e6
		}
		w.Submit(1, 8)
		w.Record(result.IO{Direction: direction, Bytes: 128 << 10, IntendedNS: at, IssuedNS: at + waited, SubmittedNS: at + waited + 9000, DoneNS: at + waited + took})
		w.Complete(1)
	}
	w.Record(result.IO{Direction: result.Read, Outcome: result.Missed})
	w.Record(result.IO{Direction: result.Read, Outcome: result.Late})
	w.End(12e9)
	return r
}

// samples are the pages to look at: a budget that is met, one that is not, one that
// cannot be judged, none, an error before anything was measured, and fio's own.
func samples(t *testing.T) map[string]*result.Document {
	all := map[string]*result.Document{}
	for name, budgetNS := range map[string]int64{"pass": 100e6, "over": 9e6, "plain": 0, "cannot": 37e6, "loads": 20e6, "none": 0} {
		r := sampleRun(7)
		if budgetNS > 0 {
			v := r.Sum(result.Read, nil).Judge(budgetNS)
			r.Amend(func(s *result.Spillway) {
				s.Verdict = result.GateOf(v, "roofline of Llama-3.1-70B bf16 on 4 x H100 80GB HBM3 (TP 4), batch 1, context 4096")
			})
		}
		r.Observe(t.TempDir())
		all[name] = r.Full(12e9)
	}
	machine := all["pass"].Spillway.Machine
	fifteen, sixteen, worn, written := int64(41), int64(58), int64(3), int64(9e12)
	machine.Drives = append(machine.Drives, result.DriveFacts{Name: "nvme0n1", Model: "ACME NVMe 3.84TB", Scheduler: "none",
		Before: &result.DriveHealth{TemperatureC: &fifteen, WornPercent: &worn, WrittenBytes: &written},
		After:  &result.DriveHealth{TemperatureC: &sixteen, WornPercent: &worn, WrittenBytes: &written}})
	machine.GPUs = []result.GPUFacts{{Name: "NVIDIA H200", Driver: "580.65.06", MemoryBytes: &written}}
	all["pass"].Spillway.Sweep = sampleSweep(12e6)
	e := all["pass"].Spillway.Sweep.Drives(64)
	all["pass"].Spillway.Estimate = &e
	all["pass"].Spillway.Transports = sampleTransports(t)
	all["pass"].Jobs[0].Spillway.Origins = []*origin.Origin{{Node: "a", Here: 3, Peers: []origin.Peer{{Node: "b <&>", Blocks: 70, RDMA: 70, Way: "rdma"}}}}
	prefixes(all["loads"])
	prefixes(all["plain"])
	all["plain"].Spillway.Loads.Verdict, all["plain"].Spillway.Verdict = "over budget", nil
	broken := result.NewRun(result.Config{Version: "spillway-test"}, time.Unix(1_800_000_000, 0))
	broken.Amend(func(s *result.Spillway) { s.Error = "open /mnt/nvme/kv.dat: no such file; create it with --create" })
	all["error"] = broken.Full(1e9)
	data, err := os.ReadFile("../result/testdata/fio-3.33.json")
	if err != nil {
		t.Fatal(err)
	}
	if all["fio"], err = result.ReadJSON(data); err != nil {
		t.Fatal(err)
	}
	return all
}

// prefixes makes d the result of requests of an engine.
func prefixes(d *result.Document) {
	v := fio.LoadVerdict{Judgement: fio.Pass, Loads: 1200, Faster: 1190, P99: 0.83, Low: 0.71, High: 0.96, Reason: "the interval lies under 1"}
	d.Spillway.Loads = result.LoadGateOf(v, "prefill roofline of Llama-3.1-8B bf16 on H100")
	if g := d.Spillway.Verdict; g != nil {
		g.Verdict, g.Reason = result.NotJudged, "requests of an engine are judged by their whole prefixes"
	}
}

func sampleTransports(t *testing.T) *compare.Comparison {
	c, err := compare.Run(t.Context(), 15, func(_ context.Context, round int, way string) (compare.Turn, error) {
		one := compare.Turn{BWBytes: 5e9 + float64(round)*1e7, P50NS: 3e6, P99NS: 9e6, CPUPerGBS: 0.4, TCP: 70}
		if way == origin.RDMA {
			one = compare.Turn{BWBytes: 9e9, P50NS: 2e6, P99NS: 5e6, CPUPerGBS: 0.2, RDMA: 70}
		}
		return one, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.CPUOf, c.Doubt = []string{"this process", "/run/spillway.sock"}, "it is made up"
	return c
}

func sampleSweep(budgetNS int64) *sweep.Sweep {
	s := &sweep.Sweep{BudgetNS: budgetNS}
	for depth := 1; depth <= 128; depth *= 2 {
		iops := 900 * float64(depth) / (1 + float64(depth)/24)
		mean := float64(depth) / iops * 1e9
		p := sweep.Point{Depth: depth, IOPS: iops, BWBytes: iops * 131072, MeanNS: mean, P50NS: int64(mean * 0.9), P99NS: int64(mean * 1.9),
			LowNS: int64(mean * 1.8), HighNS: int64(mean * 2.05), Samples: 10_000, Verdict: fio.Pass.String()}
		if p.P99NS > budgetNS {
			p.Verdict = fio.Over.String()
		}
		s.Add(p)
	}
	return s
}

func write(t *testing.T, d *result.Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPages(t *testing.T) {
	for name, d := range samples(t) {
		t.Run(name, func(t *testing.T) {
			html := write(t, d)
			if *keep != "" {
				if err := os.WriteFile(filepath.Join(*keep, name+".html"), html, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if again := write(t, d); !bytes.Equal(html, again) {
				t.Error("two pages of one result differ")
			}
			if found := regexp.MustCompile(`(?:src|href)="[^d][^"]*"|url\(|@import|<script`).Find(html); found != nil {
				t.Errorf("the page fetches something: %s", found)
			}
			if bytes.Contains(html, []byte("ZgotmplZ")) || bytes.Contains(html, []byte("NaN")) || bytes.Contains(html, []byte("%!")) {
				t.Error("the page has an empty value")
			}
			for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAll(html, -1) {
				if elements := charttest.CheckSVG(t, name, svg); elements["title"] != 1 {
					t.Errorf("a picture without a title: %.200s", svg)
				}
			}
		})
	}
}

// TestTransports: the comparison and where blocks came from are on the page, and why the
// numbers are none.
func TestTransports(t *testing.T) {
	html := string(write(t, samples(t)["pass"]))
	for _, want := range []string{"RDMA against TCP", "1.77 (", "not compare the two: it is made up", "0.200 s", "Where the blocks came from", "b &lt;&amp;&gt; 70 by rdma", "/run/spillway.sock"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}
