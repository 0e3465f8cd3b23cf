package run

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aJob reads 4 KiB blocks of 4 MiB at random, in a closed loop.
func aJob(name string, kind job.Engine) job.Job {
	b := job.Blocks{MinBytes: 4096, MaxBytes: 4096, AlignBytes: 4096}
	return job.Job{Name: name, NumJobs: 1, WaitFor: -1, Engine: kind, Direct: true, Size: job.Amount{Bytes: 4 << 20}, Namespaces: 1,
		Reads: true, Random: true, ReadPercent: 50, SequentialRun: 1, Blocks: [2]job.Blocks{b, b}, NoRandomMap: true, RandRepeat: true, IODepth: 1, ThinkBlocks: 1,
		Percentiles: []float64{50, 95, 99}, ClatPercentiles: true, LatPercentiles: true}
}

// outcome is what a test looks at after a run.
type outcome struct {
	run *result.Run
	doc *result.Document
	err error
}

// conduct runs jobs on what open opens; nil opens what the jobs name.
func conduct(t *testing.T, ctx context.Context, jobs []job.Job, open func(context.Context, *job.Job) (target.Target, error), change func(*Config)) outcome {
	t.Helper()
	start := time.Now()
	c := Config{Jobs: jobs, Open: open, Start: start, Result: result.NewRun(result.Config{Version: "test"}, start)}
	if open == nil {
		set := target.NewSet(jobs, target.Options{})
		defer func() {
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		}()
		c.Open = set.Open
	}
	if change != nil {
		change(&c)
	}
	err := Run(ctx, c)
	return outcome{c.Result, c.Result.Document(c.Result.NowNS()), err}
}

// must is conduct for a run that ends well.
func must(t *testing.T, jobs ...job.Job) outcome {
	t.Helper()
	o := conduct(t, t.Context(), jobs, nil, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o
}

// simDevice is a file of 4 MiB on a simulated disk whose I/Os take 1 ms.
func simDevice(t *testing.T) (*sim.Disk, device.Device, device.File) {
	t.Helper()
	disk := sim.NewDisk(sim.Config{Seed: 1, MemAlignBytes: 4096, OffsetAlignBytes: 4096, MinLatency: time.Millisecond, MaxLatency: time.Millisecond})
	d, err := disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Create("file", 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	return disk, d, f
}

// onSim runs jobs in virtual time.
func onSim(t *testing.T, d device.Device, f device.File, jobs ...job.Job) outcome {
	t.Helper()
	open := func(_ context.Context, j *job.Job) (target.Target, error) {
		return target.NewDevice(d, f, j.IODepth), nil
	}
	o := conduct(t, t.Context(), jobs, open, func(c *Config) { c.TimersOnly = true })
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o
}
