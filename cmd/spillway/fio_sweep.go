package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/sweep"
)

// sweep runs the last phase's jobs at one depth after the other. Those of earlier
// phases have run. Every depth is a group of its own in the result.
func (f *fioRun) sweep(ctx context.Context, depths []int, last []job.Job, runJobs func(context.Context, []job.Job) error) error {
	budgetNS := int64(0)
	if f.budget != nil {
		budgetNS = f.budget.PerToken.Nanoseconds()
	}
	verdicts := map[int]fio.Verdict{} // by the depth of all workers
	points := map[int]sweep.Point{}
	group := last[0].Group
	s, err := sweep.Run(ctx, budgetNS, depths, func(ctx context.Context, depth int) (sweep.Point, error) {
		jobs, all := slices.Clone(last), 0
		for i := range jobs {
			j := &jobs[i]
			j.IODepth, j.Group, j.WaitFor = depth, group, -1
			j.Name = fmt.Sprintf("%s iodepth=%d", j.Name, depth)
			all += depth * j.NumJobs
		}
		err := runJobs(ctx, jobs)
		now := group
		fit := func(c result.WorkerConfig) bool { return c.Group == now }
		p := f.result.PointOf(all, budgetNS, fit)
		verdicts[all], points[all] = f.result.Sum(result.Read, fit).Judge(budgetNS), p
		group++
		return p, err
	})
	f.result.Amend(func(e *result.Spillway) { e.Sweep = s })
	if f.budget != nil && len(s.Points) > 0 {
		f.judgeSweep(s, verdicts, points)
	}
	return err
}

// judgeSweep gives the verdict of the largest depth that stays under the budget, or
// of the smallest of all.
func (f *fioRun) judgeSweep(s *sweep.Sweep, verdicts map[int]fio.Verdict, points map[int]sweep.Point) {
	depth := s.DepthUnderBudget
	if depth == 0 {
		depth = s.Points[0].Depth
	}
	gate := result.GateOf(verdicts[depth], f.budget.Where)
	gate.Reason = fmt.Sprintf("at iodepth %d: %s", depth, gate.Reason)
	deepest := s.Points[len(s.Points)-1].Depth
	estimate := s.Drives(deepest)
	if s.DepthUnderBudget == 0 {
		estimate = sweep.Drives(points[deepest], f.budget.PerToken.Nanoseconds())
	}
	f.result.Amend(func(e *result.Spillway) { e.Verdict, e.Estimate = gate, &estimate })
}

// lastPhase cuts the jobs of the last phase off.
func lastPhase(jobs []job.Job) (before, last []job.Job) {
	from := len(jobs)
	for from > 0 && jobs[from-1].Phase == jobs[len(jobs)-1].Phase {
		from--
	}
	return jobs[:from], jobs[from:]
}
