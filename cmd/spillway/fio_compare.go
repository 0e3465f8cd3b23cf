package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/fio/compare"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/result"
)

// comparing is the run of --compare-transports.
type comparing struct {
	f       *fioRun
	jobs    []job.Job
	runJobs func(ctx context.Context, jobs []job.Job, r *result.Run) error
	daemons []daemonSource // those that are asked, then those of --compare-daemon
	asked   int            // how many of them are asked
	group   int            // the next of the result
}

// compare runs the jobs by RDMA and by TCP in turns.
func (f *fioRun) compare(ctx context.Context, jobs []job.Job, runJobs func(context.Context, []job.Job, *result.Run) error) (err error) {
	c := &comparing{f: f, jobs: jobs, runJobs: runJobs}
	for i := range jobs {
		if d := (daemonSource{socket: f.socketOf(&jobs[i])}); !slices.Contains(c.daemons, d) {
			c.daemons = append(c.daemons, d)
		}
	}
	c.asked = len(c.daemons)
	for _, name := range f.c.CompareDaemon {
		c.daemons = append(c.daemons, daemonNamed(name))
	}
	if err := c.warm(ctx); err != nil {
		return err
	}
	done, err := compare.Run(ctx, f.c.CompareTransports, c.turn)
	done.CPUOf = []string{"this process"}
	for _, d := range c.daemons {
		done.CPUOf = append(done.CPUOf, d.String())
	}
	f.result.Amend(func(s *result.Spillway) { s.Transports = done })
	if err == nil && done.Doubt != "" {
		err = &failure{code: exitError, message: "the transports could not be compared: " + done.Doubt, remedy: "spillway pool status shows the way to each peer"}
	}
	return err
}

// checkCompare refuses what cannot be compared.
func (f *fioRun) checkCompare() error {
	c := f.c
	if c.CompareTransports == 0 {
		if len(c.CompareDaemon) > 0 {
			return usagef("give the number of rounds", "--compare-daemon without --compare-transports")
		}
		return nil
	}
	switch {
	case c.CompareTransports < 0 || c.CompareTransports > compareMost:
		return usagef("15 are good", "--compare-transports=%d: want 1 to %d rounds", c.CompareTransports, compareMost)
	case c.Sweep != "" || !c.Ask.Empty() || c.Precondition:
		return usagef("one thing at a time", "--compare-transports goes with no budget, no --sweep and no --precondition")
	}
	for i := range c.asked.Jobs {
		if j := &c.asked.Jobs[i]; j.Engine != job.EnginePool || j.Writes {
			return usagef("fill with a run of its own", "--compare-transports: job %s: want ioengine=pool, and reads only", j.Name)
		} else if j.RampTime > 0 {
			return usagef("leave ramp_time out", "--compare-transports: job %s: all jobs are run once without being counted anyway", j.Name)
		}
	}
	return nil
}

const compareMost = 1000

// socketOf is the socket of a job's daemon.
func (f *fioRun) socketOf(j *job.Job) string {
	path := client.DefaultPath
	override(&path, j.Socket)
	return path
}

// warm runs the jobs once without counting, and says what would make all other runs
// worthless.
func (c *comparing) warm(ctx context.Context) error {
	before, err := c.counts(ctx)
	if err != nil {
		return err
	}
	if err := c.runJobs(ctx, c.jobs, result.NewRun(c.f.resultConfig(), c.f.start)); err != nil {
		return err
	}
	after, err := c.counts(ctx)
	if err != nil {
		return err
	}
	var all origin.Peer
	var said []string
	for i := range c.asked {
		o := origin.Between(c.daemons[i].socket, &before[i], &after[i])
		sum := o.Sum()
		all.Blocks, all.RDMA = all.Blocks+sum.Blocks, all.RDMA+sum.RDMA
		text := o.String()
		if why := c.onlyTCP(ctx, c.daemons[i].socket); why != "" && sum.TCP > 0 {
			text += ": no rdma: " + why
		}
		said = append(said, text)
	}
	switch {
	case all.Blocks == 0:
		return &failure{code: exitError, message: "nothing to compare: no block came from another node: " + strings.Join(said, "; "),
			remedy: "read through a node that does not have the blocks (socket=), in a pool with one that does"}
	case all.RDMA == 0:
		return &failure{code: exitError, message: "nothing to compare: there is only TCP here: " + strings.Join(said, "; "), remedy: "spillway doctor --config FILE DIR says what mends it"}
	}
	return nil
}

// onlyTCP says why a daemon has no other way than TCP, whatever its peers have; empty: it
// has, or does not tell.
func (c *comparing) onlyTCP(ctx context.Context, socket string) string {
	ctx, cancel := quick(ctx)
	defer cancel()
	var s admin.PoolStatus
	err := (&operator{socket: socket + admin.SocketSuffix}).ask(ctx, "/v1/pool", nil, nil, &s)
	switch {
	case err != nil || s.Transport != origin.TCP:
		return ""
	case s.TransportWhy == "":
		return "pool.transport is tcp"
	}
	return s.TransportWhy
}

// turn is one run of the jobs by one way.
func (c *comparing) turn(ctx context.Context, round int, way string) (t compare.Turn, err error) {
	jobs := slices.Clone(c.jobs)
	groups := map[int]bool{}
	next := c.group
	for i := range jobs {
		j := &jobs[i]
		j.Name = fmt.Sprintf("%s, %s, round %d", j.Name, way, round)
		j.Group += c.group
		groups[j.Group] = true
		next = max(next, j.Group+1)
	}
	c.group = next
	if way != origin.RDMA {
		release, err := c.hold(ctx)
		if err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	before, err := c.counts(ctx)
	if err != nil {
		return t, err
	}
	own := result.ProcessUsage()
	if err := c.runJobs(ctx, jobs, c.f.result); err != nil {
		return t, err
	}
	own = result.ProcessUsage().Since(own)
	after, err := c.counts(ctx)
	if err != nil {
		return t, err
	}
	t, bytes := c.measured(groups)
	used := own.User + own.System
	for i := range c.daemons {
		used += after[i].Since(&before[i])
	}
	for i := range c.asked {
		o := origin.Between(c.daemons[i].socket, &before[i], &after[i])
		sum := o.Sum()
		t.Here, t.RDMA, t.TCP, t.Wrong = t.Here+o.Here, t.RDMA+sum.Blocks-sum.TCP, t.TCP+sum.TCP, t.Wrong+sum.Wrong
	}
	if bytes > 0 {
		t.CPUPerGBS = used.Seconds() / float64(bytes) * 1e9
	}
	return t, nil
}

// measured are the numbers of groups of the result, and how many bytes they are of.
func (c *comparing) measured(groups map[int]bool) (t compare.Turn, bytes int64) {
	fit := func(w result.WorkerConfig) bool { return groups[w.Group] }
	p := c.f.result.PointOf(0, 0, fit)
	sum := c.f.result.Sum(result.Read, fit)
	return compare.Turn{IOPS: p.IOPS, BWBytes: p.BWBytes, P50NS: p.P50NS, P99NS: p.P99NS, Samples: p.Samples, Damaged: sum.Outcomes[result.Damaged]}, sum.Bytes
}

// How long a daemon is held to TCP, should this process end; and how often that is said
// anew.
const (
	holdTime  = 30 * time.Second
	holdAgain = 10 * time.Second
)

// hold has all daemons that are asked fetch over TCP, until release.
func (c *comparing) hold(ctx context.Context) (release func() error, err error) {
	set := func(ctx context.Context, way string, d time.Duration) (all error) {
		for _, asked := range c.daemons[:c.asked] {
			ctx, cancel := quick(ctx)
			o := &operator{socket: asked.socket + admin.SocketSuffix}
			all = errors.Join(all, o.ask(ctx, "/v1/pool/way", nil, wayBody(way, d), &admin.Changed{}))
			cancel()
		}
		return all
	}
	if err := set(ctx, admin.WayTCP, holdTime); err != nil {
		return nil, errors.Join(err, set(context.WithoutCancel(ctx), admin.WayAuto, 0))
	}
	holding, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause(holding, holdAgain) {
			_ = set(holding, admin.WayTCP, holdTime) // where it fails the blocks that come by RDMA are counted
		}
	}()
	return func() error {
		stop()
		<-ended
		return set(context.WithoutCancel(ctx), admin.WayAuto, 0)
	}, nil
}

// counts asks all daemons what they count.
func (c *comparing) counts(ctx context.Context) ([]origin.Counts, error) {
	all := make([]origin.Counts, len(c.daemons))
	for i, d := range c.daemons {
		var err error
		if all[i], err = d.counts(ctx); err != nil {
			return nil, fmt.Errorf("%v: %w", d, err)
		}
	}
	return all, nil
}
