package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
)

// TestCounts: every op is done once, by however many workers and at any depth.
func TestCounts(t *testing.T) {
	for _, depth := range []int{1, 7, 64} {
		for _, kind := range []job.Engine{job.EngineNull, job.EngineRaw, job.EngineStore} {
			j := aJob("rw", kind)
			j.Directory = t.TempDir()
			j.Writes, j.NumJobs, j.IODepth, j.NumberIOs, j.GroupReporting = true, 3, depth, 200, true
			o := must(t, j)
			s := o.doc.Jobs[0]
			all := s.Read.IOs + s.Write.IOs + s.Spillway.Read.Missed
			if all != 600 || kind != job.EngineStore && s.Read.Bytes+s.Write.Bytes != 600*4096 {
				t.Errorf("%v at depth %d: %d reads, %d writes, %d misses", kind, depth, s.Read.IOs, s.Write.IOs, s.Spillway.Read.Missed)
			}
		}
	}
}

// TestVerify: what a job writes it reads back and proves, and a later job proves it
// again.
func TestVerify(t *testing.T) {
	for kind, checks := range map[job.Engine][]job.Check{
		job.EngineRaw:   {job.CheckCRC32C, job.CheckSHA256, job.CheckXXHash, job.CheckPattern},
		job.EngineStore: {job.CheckXXHash},
	} {
		for _, check := range checks {
			w := aJob("w", kind)
			w.Directory, w.Filenames = t.TempDir(), []string{"file"}
			if kind == job.EngineStore {
				w.Filenames = nil
			}
			w.Reads, w.Writes, w.Verify, w.DoVerify, w.IODepth, w.Random = false, true, check, true, 4, false
			r := w
			r.Name, r.Phase, r.Reads, r.Writes = "r", 1, true, false
			o := must(t, w, r)
			for i, want := range [][2]int64{{1024, 1024}, {1024, 0}} {
				s := o.doc.Jobs[i]
				if s.Read.IOs != want[0] || s.Write.IOs != want[1] || s.Error != 0 {
					t.Errorf("%v: job %s: %d reads, %d writes, error %d", kind, s.Name, s.Read.IOs, s.Write.IOs, s.Error)
				}
			}
		}
	}
}

// damaged is a written file of which some bytes are flipped.
func damaged(t *testing.T) job.Job {
	t.Helper()
	w := aJob("w", job.EngineRaw)
	w.Directory, w.Filenames = t.TempDir(), []string{"file"}
	w.Reads, w.Writes, w.Random, w.Verify = false, true, false, job.CheckCRC32C
	must(t, w)
	f, err := os.OpenFile(filepath.Join(w.Directory, "file"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, block := range []int64{3, 500, 501} {
		if _, err := f.WriteAt([]byte{0xff, 0xfe, 0xfd}, block*4096+2000); err != nil {
			t.Fatal(err)
		}
	}
	w.Reads, w.Writes = true, false
	return w
}

// TestDamage: a flipped byte is damage, in no percentile, and ends the job unless
// it goes on.
func TestDamage(t *testing.T) {
	j := damaged(t)
	s := must(t, j).doc.Jobs[0]
	if s.Read.IOs != 3 || s.Spillway.Read.Damaged != 1 || s.Error != 84 {
		t.Errorf("%d reads, %d damaged, error %d", s.Read.IOs, s.Spillway.Read.Damaged, s.Error)
	}
	j.ContinueOnError = job.VerifyErrors
	s = must(t, j).doc.Jobs[0]
	if s.Read.IOs != 1021 || s.Spillway.Read.Damaged != 3 || s.Read.Lat.N != 1021 {
		t.Errorf("going on: %d reads, %d damaged, %d latencies", s.Read.IOs, s.Spillway.Read.Damaged, s.Read.Lat.N)
	}
}

// TestUnverified: bytes that no benchmark wrote are neither right nor damage.
func TestUnverified(t *testing.T) {
	j := aJob("r", job.EngineRaw)
	path := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	j.Filenames, j.NumberIOs, j.Verify = []string{path}, 100, job.CheckCRC32C
	s := must(t, j).doc.Jobs[0]
	if s.Read.IOs != 0 || s.Spillway.Read.Unverified != 100 || s.Read.Lat.N != 0 {
		t.Errorf("%d reads, %d unverified", s.Read.IOs, s.Spillway.Read.Unverified)
	}
}

// TestInterrupted: an end from outside leaves what was counted, and nothing behind.
func TestInterrupted(t *testing.T) {
	for _, kind := range []job.Engine{job.EngineNull, job.EngineRaw, job.EngineStore} {
		for _, rate := range []int64{0, 5000} {
			j := aJob("endless", kind)
			j.Directory, j.Writes = t.TempDir(), true
			j.TimeBased, j.Runtime, j.IODepth, j.NumJobs, j.RateIOPS = true, time.Hour, 8, 2, [2]int64{rate, rate}
			ctx, cancel := context.WithCancel(t.Context())
			o := conduct(t, ctx, []job.Job{j}, nil, func(c *Config) {
				c.Progress = func(p Progress) {
					if p.Ops > 100 {
						cancel()
					}
				}
			})
			if !errors.Is(o.err, ErrInterrupted) || o.doc.Jobs[0].Write.IOs == 0 {
				t.Errorf("%v: %v, %d writes", kind, o.err, o.doc.Jobs[0].Write.IOs)
			}
		}
	}
}

// TestTime: phases, start delays, ramps and run times, to the millisecond of a
// drive that takes one.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, f := simDevice(t)
		first, second, third := aJob("first", job.EngineRaw), aJob("second", job.EngineRaw), aJob("third", job.EngineRaw)
		first.TimeBased, first.Runtime, first.RampTime = true, 10*time.Second, 5*time.Second
		second.NumberIOs, second.StartDelay = 1000, [2]time.Duration{3 * time.Second, 3 * time.Second}
		third.NumberIOs, third.WaitFor = 500, 1
		fourth := third
		fourth.Phase, fourth.WaitFor = 1, -1
		began := time.Now()
		o := onSim(t, d, f, first, second, third, fourth)
		if took := time.Since(began).Round(10 * time.Millisecond); took != 15500*time.Millisecond {
			t.Errorf("all took %v", took)
		}
		for i, want := range []struct{ ios, ms int64 }{{10_000, 10_000}, {1000, 1000}, {500, 500}, {500, 500}} {
			j := o.doc.Jobs[i]
			if n := j.Read.IOs; n < want.ios-20 || n > want.ios+20 || j.Read.RuntimeMS < want.ms-5 || j.Read.RuntimeMS > want.ms+5 {
				t.Errorf("job %d: %d I/Os in %d ms, want %d in %d", i, n, j.Read.RuntimeMS, want.ios, want.ms)
			}
		}
		f.Close()
		d.Close()
	})
}

// TestThinkTime: the pause is between I/Os and in no latency.
func TestThinkTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, f := simDevice(t)
		j := aJob("thinker", job.EngineRaw)
		j.NumberIOs, j.ThinkTime, j.ThinkBlocks = 100, 9*time.Millisecond, 1
		s := onSim(t, d, f, j).doc.Jobs[0].Read
		if s.RuntimeMS < 985 || s.RuntimeMS > 1001 || *s.Lat.Max > 1.1e6 {
			t.Errorf("%d ms, slowest %d ns", s.RuntimeMS, *s.Lat.Max)
		}
		f.Close()
		d.Close()
	})
}

// TestSteady: a drive whose rate does not change ends a steadystate job early.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, f := simDevice(t)
		j := aJob("steady", job.EngineRaw)
		j.TimeBased, j.Runtime = true, time.Hour
		j.SteadyState = job.Steady{Criterion: job.SteadyIOPS, Limit: 2, Percent: true, Duration: 5 * time.Second, Interval: time.Second}
		s := onSim(t, d, f, j).doc.Jobs[0]
		if s.SteadyState == nil || s.SteadyState.Attained != 1 || s.Read.RuntimeMS > 10_000 || s.Read.RuntimeMS < 5000 {
			t.Errorf("%+v after %d ms", s.SteadyState, s.Read.RuntimeMS)
		}
		if d := s.SteadyState.Data; d == nil || len(d.IOPS) != 5 || len(d.BW) != 5 || d.BWMean < 4090*d.IOPSMean || slices.Min(d.IOPS) < 900 || slices.Max(d.IOPS) > 1100 {
			t.Errorf("rates %+v", d)
		}
		f.Close()
		d.Close()
	})
}

// TestErrors: an I/O error is told, counted apart, and ends its worker.
func TestErrors(t *testing.T) {
	j := aJob("short", job.EngineRaw)
	j.Filenames, j.Random, j.Size.Bytes = []string{filepath.Join(t.TempDir(), "file")}, false, 1<<20
	j.Writes = true
	open := func(ctx context.Context, jj *job.Job) (target.Target, error) {
		set := target.NewSet([]job.Job{j}, target.Options{})
		opened, err := set.Open(ctx, jj)
		if err == nil {
			err = os.Truncate(j.Filenames[0], 512<<10) // the medium ends in the middle
		}
		return opened, err
	}
	j.ReadPercent = 100
	o := conduct(t, t.Context(), []job.Job{j}, open, nil)
	s := o.doc.Jobs[0]
	if o.err != nil || s.Read.IOs != 128 || s.Spillway.Read.Failed != 1 || s.Error == 0 || s.Spillway.Error == "" {
		t.Errorf("%v: %d reads, %d failed, error %d %q", o.err, s.Read.IOs, s.Spillway.Read.Failed, s.Error, s.Spillway.Error)
	}
}

// TestTooMuchMemory: what would not fit is refused before it is taken.
func TestTooMuchMemory(t *testing.T) {
	j := aJob("big", job.EngineNull)
	j.NumJobs, j.IODepth, j.Blocks[0].MaxBytes = 1000, 1024, 1<<20
	if o := conduct(t, t.Context(), []job.Job{j}, nil, nil); !errors.Is(o.err, target.ErrJob) {
		t.Errorf("error %v", o.err)
	}
}

// TestNoGarbage: an I/O costs no memory.
func TestNoGarbage(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	for _, kind := range []job.Engine{job.EngineNull, job.EngineRaw} {
		allocations := func(ios int64) float64 {
			j := aJob("lean", kind)
			j.Directory = t.TempDir()
			j.NumberIOs, j.IODepth = ios, 8
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			must(t, j)
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs - before.Mallocs)
		}
		allocations(100)
		few, many := allocations(100), allocations(4100)
		if each := (many - few) / 4000; each > 0.05 {
			t.Errorf("%v: %.2f allocations an I/O", kind, each)
		}
	}
}

// BenchmarkNull is what the harness itself costs: the time of an I/O that ends at
// once, with all that is counted of it.
func BenchmarkNull(b *testing.B) {
	for name, change := range map[string]func(*job.Job){
		"closed, depth 1":  func(*job.Job) {},
		"closed, depth 32": func(j *job.Job) { j.IODepth = 32 },
		"open, depth 32":   func(j *job.Job) { j.IODepth = 32; j.RateIOPS[job.Read] = 1e9 },
	} {
		b.Run(name, func(b *testing.B) {
			j := aJob("null", job.EngineNull)
			j.NumberIOs = int64(b.N)
			j.TimeBased, j.Runtime = true, time.Hour
			j.Blocks[0] = job.Blocks{MinBytes: 64 << 10, MaxBytes: 64 << 10, AlignBytes: 64 << 10}
			change(&j)
			start := time.Now()
			set := target.NewSet([]job.Job{j}, target.Options{})
			run := result.NewRun(result.Config{}, start)
			b.ReportAllocs()
			if err := Run(b.Context(), Config{Jobs: []job.Job{j}, Open: set.Open, Result: run, Start: start}); err != nil {
				b.Fatal(err)
			}
			if n := run.Document(run.NowNS()).Jobs[0].Read.IOs; n != int64(b.N) {
				b.Fatalf("%d of %d I/Os", n, b.N)
			}
		})
	}
}

// TestReadBack: writes and the reads that prove them have times of their own.
func TestReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, f := simDevice(t)
		j := aJob("w", job.EngineRaw)
		j.Reads, j.Writes, j.NoRandomMap, j.Verify, j.DoVerify, j.NumberIOs = false, true, false, job.CheckXXHash, true, 200
		s := onSim(t, d, f, j).doc.Jobs[0]
		for name, ms := range map[string]int64{"write": s.Write.RuntimeMS, "read": s.Read.RuntimeMS} {
			if ms < 199 || ms > 203 {
				t.Errorf("%s: %d ms for 200 I/Os of one", name, ms)
			}
		}
		f.Close()
		d.Close()
	})
}
