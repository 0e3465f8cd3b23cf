package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	fiorun "github.com/spillway-kv/spillway/fio/run"
	"github.com/spillway-kv/spillway/fio/sweep"
	"github.com/spillway-kv/spillway/fio/target"
	"github.com/spillway-kv/spillway/fio/units"
)

// fioRun is one run of spillway fio.
type fioRun struct {
	c       *fioCmd
	st      *state
	formats result.Formats
	start   time.Time
	result  *result.Run
	meter   meter
	gates   gates
	depths  []int // of a sweep; nil: none
	w       io.Writer
}

// conduct runs the jobs and writes the result to w, however they end.
func (f *fioRun) conduct(ctx context.Context, w io.Writer) (int, error) {
	f.start, f.w, f.meter = f.st.now(), w, newMeter(f.st)
	f.result = result.NewRun(f.resultConfig(), f.start)
	for _, note := range f.c.asked.Notes {
		fmt.Fprintln(f.st.stderr, note)
	}
	return f.result.Conduct(w, f.formats, func() error {
		err := f.jobs(ctx)
		f.meter.clear()
		return err
	})
}

func (f *fioRun) resultConfig() result.Config {
	c := result.Config{Version: fioVersion(f.st), ExitCode: func(err error) int { return int(explain(err).code) }}
	if f.c.Report != "" {
		c.Page = f.writeReport
	}
	for _, s := range f.c.asked.Global {
		c.GlobalOptions = append(c.GlobalOptions, result.Option{Name: s.Name, Value: s.Value})
	}
	return c
}

// jobs finds what to judge by, runs the jobs, and judges.
func (f *fioRun) jobs(ctx context.Context) error {
	if err := f.checkCompare(); err != nil {
		return err
	}
	if err := f.findGates(ctx); err != nil {
		return err
	}
	if f.c.Sweep != "" {
		var err error
		if f.depths, err = sweep.ParseDepths(f.c.Sweep); err != nil {
			return usagef("write it like --sweep=iodepth=1,2,4,8", "--sweep: %v", err)
		}
	}
	jobs := f.c.asked.Jobs
	set := target.NewSet(jobs, target.Options{Foreign: f.c.AllowForeign, Logger: warnings(f.st.stderr, f.c.JSON), Progress: f.preparing})
	f.observe(jobs)
	f.announce(jobs)
	err := f.all(ctx, set, jobs)
	return errors.Join(err, set.Close())
}

// all runs all there is to run.
func (f *fioRun) all(ctx context.Context, set *target.Set, jobs []job.Job) error {
	if f.c.Precondition {
		if err := f.precondition(ctx, set); err != nil {
			return err
		}
	}
	into := func(ctx context.Context, jobs []job.Job, r *result.Run) error {
		return fiorun.Run(ctx, fiorun.Config{Jobs: jobs, Open: set.Open, Result: r, Start: f.start, Progress: f.progress,
			Compute: f.gates.computes(), StatusInterval: f.c.asked.Options.StatusInterval, Status: f.status, Opened: f.opened})
	}
	if f.c.CompareTransports > 0 {
		return f.compare(ctx, jobs, into)
	}
	runJobs := func(ctx context.Context, jobs []job.Job) error { return into(ctx, jobs, f.result) }
	if f.depths != nil {
		before, last := lastPhase(jobs)
		if err := runJobs(ctx, before); err != nil {
			return err
		}
		return f.sweep(ctx, f.depths, last, runJobs)
	}
	err := runJobs(ctx, jobs)
	f.judge()
	return err
}

// observe watches the drives below the jobs' paths.
func (f *fioRun) observe(jobs []job.Job) {
	seen := map[string]bool{}
	for i := range jobs {
		paths := jobs[i].Filenames
		if jobs[i].Directory != "" {
			paths = []string{jobs[i].Directory}
		}
		for _, path := range paths {
			if _, err := os.Stat(path); err == nil && !seen[path] {
				seen[path] = true
				f.result.Observe(path)
			}
		}
	}
}

// failure is what the exit code of the result means for the user; err is why the
// run did not end well, if it did not.
func (f *fioRun) failure(code exitCode, err error) error {
	if err != nil {
		told := *explain(err)
		told.code = code
		return &told
	}
	d := f.result.Document(f.result.NowNS())
	switch code {
	case exitPass:
		return nil
	case exitError:
		return &failure{code: code, message: "error: " + firstError(d), remedy: "look at the drive and at the system's log"}
	case exitDamage:
		return &failure{code: code, message: "damage: " + firstError(d), remedy: "look at the drive"}
	default:
		verdict, reason := d.Spillway.Worst()
		return &failure{code: code, message: verdict + ": " + reason}
	}
}

// firstError is what the first job with an error says.
func firstError(d *result.Document) string {
	for _, j := range d.Jobs {
		if j.Spillway != nil && j.Spillway.Error != "" {
			return "job " + j.Name + ": " + j.Spillway.Error
		}
	}
	return "I/Os failed"
}

// status is called each status-interval.
func (f *fioRun) status() {
	if err := f.result.Tick(f.w, f.formats); err != nil {
		fmt.Fprintln(f.st.stderr, "the status could not be written:", err)
	}
}

// opened is called before a job begins.
func (f *fioRun) opened(j *job.Job, facts target.Facts) {
	for _, note := range facts.Notes {
		if facts.Engine != job.EngineStore.String() && facts.Engine != job.EnginePool.String() {
			f.note(j, note)
		}
	}
}

func (f *fioRun) note(j *job.Job, text string) {
	if !f.c.Quiet && !f.c.JSON {
		f.meter.clear()
		fmt.Fprintf(f.st.stderr, "job %s: %s\n", j.Name, text)
	}
}

// preparing shows long work before the jobs.
func (f *fioRun) preparing(what string, done, total int64) {
	if !f.c.Quiet {
		f.meter.show(func(time.Time) string {
			return fmt.Sprintf("%s: %s of %s", what, units.Bytes(done), units.Bytes(total))
		})
	}
}

// progress shows how far the jobs are.
func (f *fioRun) progress(p fiorun.Progress) {
	if f.c.Quiet || p.Jobs == 0 {
		return
	}
	f.meter.show(func(time.Time) string {
		line := fmt.Sprintf("%d jobs, %s", p.Jobs, rates(p))
		if p.Jobs == 1 {
			line = fmt.Sprintf("job %s, %s", p.Job, rates(p))
		}
		if p.Share >= 0 {
			line += fmt.Sprintf(", %.0f %%, %v left", 100*p.Share, p.Left.Round(time.Second))
		}
		return line
	})
}

func rates(p fiorun.Progress) string {
	return fmt.Sprintf("%.0f IOPS, %s/s", p.OpsPerSec, units.Bytes(int64(p.BytesPerSec)))
}
