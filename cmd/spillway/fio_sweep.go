package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/sweep"
)

// sweep runs the last phase's jobs at one depth after the other. Those of earlier
// phases have run. Every depth is a group of its own in the result.
func (f *fioRun) sweep(ctx context.Context, depths []int, last []job.Job, runJobs func(context.Context, []job.Job) error) error {
	budgetNS := f.gates.budgetNS()
	judged := map[int]verdicts{} // by the depth of all workers
	points := map[int]sweep.Point{}
	group := last[0].Group
	s, err := sweep.Run(ctx, budgetNS, depths, func(ctx context.Context, depth int) (sweep.Point, error) {
		jobs, all := slices.Clone(last), 0
		for i := range jobs {
			j := &jobs[i]
			j.IODepth, j.Group, j.WaitFor = depth, group, -1
			j.FileStem = j.Name // all depths read the same files
			j.Name = fmt.Sprintf("%s%s%d", j.Name, sweep.NameSuffix, depth)
			all += depth * j.NumJobs
		}
		err := runJobs(ctx, jobs)
		now := group
		fit := func(c result.WorkerConfig) bool { return c.Group == now }
		p := f.result.PointOf(all, budgetNS, fit)
		v := f.gates.of(f.result, fit)
		if v.loads != nil {
			p.Verdict = v.worst()
			if v.loads.P99 != nil {
				p.LoadsP99 = float64(*v.loads.P99)
			}
		}
		judged[all], points[all] = v, p
		group++
		return p, err
	})
	f.result.Amend(func(e *result.Spillway) { e.Sweep = s })
	if s.Judged() {
		f.judgeSweep(s, judged, points)
	}
	return err
}

// judgeSweep gives the verdict of the largest depth that stays under the budget, or
// of the smallest of all.
func (f *fioRun) judgeSweep(s *sweep.Sweep, judged map[int]verdicts, points map[int]sweep.Point) {
	depth := s.DepthUnderBudget
	if depth == 0 {
		depth = s.Points[0].Depth
	}
	v := judged[depth]
	v.at(depth)
	v.amend(f.result)
	deepest := s.Points[len(s.Points)-1].Depth
	estimate := s.Drives(deepest)
	if s.DepthUnderBudget == 0 {
		if _, _, closed := f.readers(); !closed {
			return
		}
		estimate = sweep.Drives(points[deepest], f.gates.budgetNS())
	}
	f.result.Amend(func(e *result.Spillway) { e.Estimate = &estimate })
}

// lastPhase cuts the jobs of the last phase off.
func lastPhase(jobs []job.Job) (before, last []job.Job) {
	from := len(jobs)
	for from > 0 && jobs[from-1].Phase == jobs[len(jobs)-1].Phase {
		from--
	}
	return jobs[:from], jobs[from:]
}
