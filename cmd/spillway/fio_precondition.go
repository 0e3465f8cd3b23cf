package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/result"
	fiorun "github.com/spillway-kv/spillway/fio/run"
	"github.com/spillway-kv/spillway/fio/target"
)

// preconditionDepth is how many writes are in flight.
const preconditionDepth = 32

// precondition brings what the raw jobs use to its steady state, job by job; ranges
// that several jobs share are done once. Its writes are in no result.
func (f *fioRun) precondition(ctx context.Context, set *target.Set) error {
	done := map[string]bool{}
	for i := range f.c.asked.Jobs {
		j := f.c.asked.Jobs[i]
		if j.Engine != job.EngineRaw {
			continue
		}
		place := fmt.Sprint(j.Directory, j.Filenames, j.Size, j.Offset)
		if len(j.Filenames) == 0 {
			place = fmt.Sprint(i) // files of its own
		}
		if done[place] {
			continue
		}
		done[place] = true
		if err := f.preconditionOne(ctx, set, j); err != nil {
			return err
		}
	}
	return nil
}

// preconditionOne writes what one job uses, each of its workers' files.
func (f *fioRun) preconditionOne(ctx context.Context, set *target.Set, j job.Job) error {
	blockBytes := max(j.Blocks[job.Read].MaxBytes, j.Blocks[job.Write].MaxBytes)
	j.Writes, j.Verify, j.IODepth, j.Offload = true, job.CheckNone, preconditionDepth, j.Backend == job.BackendPsync
	j.RateBytes, j.RateIOPS, j.ThinkTime, j.StartDelay = [2]int64{}, [2]int64{}, 0, [2]time.Duration{}
	j.Runtime, j.TimeBased, j.RampTime, j.WaitFor, j.SteadyState = 0, false, 0, -1, job.Steady{}
	if len(j.Filenames) > 0 {
		j.NumJobs = 1 // all workers share them
	}
	var plans []*load.Precondition
	source := func(j *job.Job, c load.Config) (load.Source, error) {
		p, err := load.NewPrecondition(load.PreconditionConfig{SpaceBytes: c.SpaceBytes, Seed: c.Seed(j), BlockBytes: blockBytes})
		plans = append(plans, p)
		return p, err
	}
	for d := range j.Blocks {
		j.Blocks[d].MaxBytes = max(j.Blocks[d].MaxBytes, 1<<20)
	}
	started := f.st.now()
	r := result.NewRun(f.resultConfig(), started)
	err := fiorun.Run(ctx, fiorun.Config{Jobs: []job.Job{j}, Open: set.Open, Result: r, Start: started, Source: source,
		Progress: func(p fiorun.Progress) {
			if !f.c.Quiet {
				f.meter.show(func(time.Time) string { return "preconditioning, " + rates(p) })
			}
		}})
	if err != nil {
		return err
	}
	for _, p := range plans {
		f.note(&j, "preconditioned: "+p.Report().String())
	}
	if d := r.Document(r.NowNS()); d.Jobs[0].Error != 0 {
		return &failure{code: exitError, message: "preconditioning: " + firstError(d), remedy: "look at the drive and at the system's log"}
	}
	return nil
}
