package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/fio/budget"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	fiorun "github.com/spillway-kv/spillway/fio/run"
	"github.com/spillway-kv/spillway/fio/sweep"
)

// gates are what a run is judged by: P99 of block reads against the time of a token,
// and loads of whole prefixes against the time of computing them.
type gates struct {
	budget  *budget.Budget  // nil: none is asked for
	compute *budget.Compute // nil: nothing tells
}

// findGates finds them before anything is touched.
func (f *fioRun) findGates(ctx context.Context) error {
	ask := &f.c.Ask
	if ask.GPU != "" && ask.Model == "" && ask.ModelConfig == "" {
		ask.Model = modelOf(f.c.asked.Jobs)
	}
	var err error
	if !ask.Empty() {
		if f.gates.budget, err = ask.Resolve(ctx, budget.Machine{Monitor: f.st.gpus.monitor}); err != nil {
			if ctx.Err() != nil {
				return fiorun.ErrInterrupted
			}
			return budgetFailure(err)
		}
	}
	if f.gates.compute, err = ask.Compute(f.gates.budget); err != nil {
		return budgetFailure(err)
	}
	if f.gates.budget == nil {
		return nil
	}
	f.warnOfSizes()
	derivation, err := json.Marshal(f.gates.budget.Derive(nil))
	if err != nil {
		return err
	}
	f.result.Amend(func(s *result.Spillway) { s.Budget = derivation })
	return nil
}

// modelOf is the model that all jobs with one name (kv_model), "" if there is none.
func modelOf(jobs []job.Job) (name string) {
	for i := range jobs {
		switch m := jobs[i].Model; {
		case m == "":
		case name != "" && name != m:
			return ""
		default:
			name = m
		}
	}
	return name
}

// warnOfSizes tells of jobs that load whole prefixes in blocks of another size than
// the model's, whose verdict is not that model's.
func (f *fioRun) warnOfSizes() {
	setup := f.gates.budget.Setup
	if setup == nil {
		return
	}
	for i := range f.c.asked.Jobs {
		j := &f.c.asked.Jobs[i]
		if !fiorun.LoadsPrefixes(j) {
			continue
		}
		has, should := j.Blocks[job.Read].MaxBytes, setup.Model.BlockBytes(j.BlockTokens, setup.KV)
		if has != should {
			f.note(j, fmt.Sprintf("its blocks have %d bytes, and those of %d tokens of %s %d: the verdict on prefixes is not of that model's; use kv_model", has, j.BlockTokens, setup.Model.Name, should))
		}
	}
}

// budgetNS is 0 without a budget.
func (g *gates) budgetNS() int64 {
	if g.budget == nil {
		return 0
	}
	return g.budget.PerToken.Nanoseconds()
}

// computes is what runs compare loads with; nil: nothing tells.
func (g *gates) computes() func(tokens int) time.Duration {
	if g.compute == nil {
		return nil
	}
	return g.compute.Of
}

// verdicts are those on some workers; either may be nil.
type verdicts struct {
	reads *result.Gate
	loads *result.LoadGate
}

// of judges the workers of r that fit and read. Reads of requests are judged as whole
// prefixes where the time of computing them is known, and as blocks where it is not.
func (g *gates) of(r *result.Run, fit func(result.WorkerConfig) bool) (v verdicts) {
	whole := func(c result.WorkerConfig) bool { return fit(c) && c.Requests && g.compute != nil }
	blocks := func(c result.WorkerConfig) bool { return fit(c) && !whole(c) }
	someWhole, someBlocks := r.Reads(whole), r.Reads(blocks)
	if someWhole {
		v.loads = result.LoadGateOf(r.JudgeLoads(whole), g.compute.Where)
	}
	if g.budget == nil {
		return v
	}
	if someWhole && !someBlocks {
		v.reads = result.GateOf(r.Sum(result.Read, whole).Judge(g.budgetNS()), g.budget.Where)
		v.reads.Verdict, v.reads.Reason = result.NotJudged, "requests of an engine are judged by their whole prefixes"
		return v
	}
	v.reads = result.GateOf(r.Sum(result.Read, blocks).Judge(g.budgetNS()), g.budget.Where)
	return v
}

// worst is the one that decides.
func (v verdicts) worst() string {
	verdict, _ := (&result.Spillway{Verdict: v.reads, Loads: v.loads}).Worst()
	return verdict
}

// amend puts the verdicts into the result.
func (v verdicts) amend(r *result.Run) {
	r.Amend(func(s *result.Spillway) { s.Verdict, s.Loads = v.reads, v.loads })
}

// at says at which depth of a sweep the verdicts were made.
func (v verdicts) at(depth int) {
	if v.reads != nil {
		v.reads.Reason = fmt.Sprintf("at iodepth %d: %s", depth, v.reads.Reason)
	}
	if v.loads != nil {
		v.loads.Reason = fmt.Sprintf("at iodepth %d: %s", depth, v.loads.Reason)
	}
}

func everyWorker(result.WorkerConfig) bool { return true }

// judge makes the verdicts on all that was read, and, of block reads of a closed loop,
// the estimate of how many drives would do.
func (f *fioRun) judge() {
	v := f.gates.of(f.result, everyWorker)
	v.amend(f.result)
	depth, group, closed := f.readers()
	if f.gates.budget == nil || v.reads.P99NS == nil || !closed {
		return
	}
	budgetNS := f.gates.budgetNS()
	estimate := sweep.Drives(f.result.PointOf(depth, budgetNS, group), budgetNS)
	f.result.Amend(func(s *result.Spillway) { s.Estimate = &estimate })
}

// readers are the jobs that read: how much they have in flight, and which workers they
// are. closed says that an estimate follows from them: they run at the same time, as
// closed loops, and do not load whole prefixes.
func (f *fioRun) readers() (depth int, fit func(result.WorkerConfig) bool, closed bool) {
	groups, phase := map[int]bool{}, -1
	closed = true
	for i := range f.c.asked.Jobs {
		j := &f.c.asked.Jobs[i]
		if !j.Reads {
			continue
		}
		closed = closed && !fiorun.OpenLoop(j) && !fiorun.LoadsPrefixes(j) && (phase < 0 || phase == j.Phase)
		phase = j.Phase
		groups[j.Group] = true
		depth += j.IODepth * j.NumJobs
	}
	return depth, func(c result.WorkerConfig) bool { return groups[c.Group] }, closed && depth > 0
}
