// Package run carries jobs out: workers take ops from their sources, keep as many
// in flight as the job's depth, prove what comes back, and count.
//
// Each worker is one goroutine and owns its lane, its source and its I/Os; targets
// hand ended I/Os to its mailbox. In a closed loop an op begins when an I/O ends.
// In an open loop (the source gives intended starts) it begins at its time, or
// late if all of the depth is in flight, and its latency counts from its time
// all the same: a stall shows in every op that it made wait.
//
// What is measured of an I/O: issued, just before the call that submits it;
// submitted, when the system call began, where the target can tell; done, when the
// target had ended and the bytes were proven, if the job verifies. The time that an
// ended I/O waits for its worker is the harness's and is left out.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// ErrInterrupted: the context ended before the jobs did.
var ErrInterrupted = errors.New("interrupted")

// The bounds of the I/Os of all jobs of a phase: their memory, each on pages of its own,
// and their number.
const (
	bufferBytesMax = 8 << 30
	iosMax         = 1 << 18
)

// Config says what to run.
type Config struct {
	Jobs []job.Job
	// Open opens the target of a job; Run closes it.
	Open func(ctx context.Context, j *job.Job) (target.Target, error)
	// Result counts. Start is the time at which its clock began.
	Result *result.Run
	Start  time.Time
	// Source, if set, makes the load of a worker in place of load.New.
	Source func(j *job.Job, c load.Config) (load.Source, error)
	// Progress, if set, is called several times a second, on a goroutine of Run.
	Progress func(Progress)
	// Status, if set, is called each StatusInterval, on a goroutine of Run.
	Status         func()
	StatusInterval time.Duration
	// Compute, if set, is how long the GPU computes a prefix of so many tokens; its loads
	// are compared with that. Workers call it at the same time.
	Compute func(tokens int) time.Duration
	// Opened, if set, is told what each job drives, before the first I/O of its
	// phase.
	Opened func(j *job.Job, f target.Facts)
	// TimersOnly waits with the runtime's timers, which a test's virtual time needs.
	// They are a millisecond late at times, which is too much for an open loop.
	TimersOnly bool
}

// Run runs the jobs, phase after phase, and returns when no I/O is in flight any
// more. What was counted stands in Config.Result whatever the error. Errors of
// I/Os end their worker, unless its job goes on, and are in the result; the
// error here is what kept a job from running, or ErrInterrupted.
func Run(ctx context.Context, c Config) error {
	r := &runner{c: c, ended: make([]chan struct{}, len(c.Jobs))}
	for i := range r.ended {
		r.ended[i] = make(chan struct{})
	}
	stop := r.watch()
	defer stop()
	for from := 0; from < len(c.Jobs); {
		to := from
		for to < len(c.Jobs) && c.Jobs[to].Phase == c.Jobs[from].Phase {
			to++
		}
		if err := r.phase(ctx, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// runner is one Run.
type runner struct {
	c     Config
	ended []chan struct{} // of each job

	mu     sync.Mutex
	crews  []*crew // of the jobs that have begun
	number int     // of the phase
}

// crew is the workers of one job.
type crew struct {
	r       *runner
	job     *job.Job
	index   int // of the job
	target  target.Target
	workers []*worker
	// stop ends the job early: it is steady, or a worker has met what ends it.
	stop     chan struct{}
	stopOnce sync.Once
	stopping atomic.Bool // so is the context's end
}

func (k *crew) end() {
	k.stopping.Store(true)
	k.stopOnce.Do(func() { close(k.stop) })
}

// phase runs jobs [from, to) at once.
func (r *runner) phase(ctx context.Context, from, to int) (err error) {
	var crews []*crew
	defer func() {
		for _, k := range crews {
			err = errors.Join(err, k.close())
		}
	}()
	if err := r.checkSize(from, to); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		k, err := r.open(ctx, i)
		if err != nil && ctx.Err() != nil {
			return ErrInterrupted
		}
		if err != nil {
			return err
		}
		crews = append(crews, k)
	}
	r.mu.Lock()
	r.crews = append(r.crews, crews...)
	r.number++
	r.mu.Unlock()
	var all sync.WaitGroup
	errs := make([]error, len(crews))
	for i, k := range crews {
		all.Go(func() {
			defer close(r.ended[from+i])
			errs[i] = result.Guard(func() error { return k.run(ctx) })
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return nil
}

// checkSize refuses jobs whose I/Os are too many or take too much memory, before anything
// is made for them.
func (r *runner) checkSize(from, to int) error {
	ios, memoryBytes := int64(0), int64(0)
	for i := from; i < to; i++ {
		j := &r.c.Jobs[i]
		n := int64(j.NumJobs) * int64(j.IODepth)
		ios += n
		memoryBytes += n * ((int64(maxBytes(j)) + payload.UnitBytes - 1) / payload.UnitBytes * payload.UnitBytes)
		switch {
		case ios > iosMax:
			return fmt.Errorf("job %s %w: numjobs and iodepth together are %d I/Os in flight, more than %d", j.Name, target.ErrJob, ios, int64(iosMax))
		case memoryBytes > bufferBytesMax:
			return fmt.Errorf("job %s %w: numjobs, iodepth and bs together need %d bytes of memory for I/O, more than %d", j.Name, target.ErrJob, memoryBytes, int64(bufferBytesMax))
		}
		if err := arena.EnoughMemory(memoryBytes); err != nil {
			return fmt.Errorf("job %s %w: numjobs, iodepth and bs together: %w", j.Name, target.ErrJob, err)
		}
	}
	return nil
}

// open opens the target of a job and makes its workers.
func (r *runner) open(ctx context.Context, index int) (_ *crew, err error) {
	j := &r.c.Jobs[index]
	t, err := r.c.Open(ctx, j)
	if err != nil {
		return nil, err
	}
	k := &crew{r: r, job: j, index: index, target: t, stop: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if r.c.Opened != nil {
		r.c.Opened(j, t.Facts())
	}
	for n := range j.NumJobs {
		w, err := newWorker(k, n)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
		k.workers = append(k.workers, w)
	}
	return k, nil
}

// run runs the workers of a job until all have ended.
func (k *crew) run(ctx context.Context) error {
	if n := k.job.WaitFor; n >= 0 {
		select {
		case <-k.r.ended[n]:
		case <-ctx.Done():
			return nil
		}
	}
	defer context.AfterFunc(ctx, func() { k.stopping.Store(true) })()
	stopSteady := k.watchSteady()
	defer stopSteady()
	count := k.counting(ctx)
	defer count()
	var all sync.WaitGroup
	errs := make([]error, len(k.workers))
	for i, w := range k.workers {
		all.Go(func() {
			errs[i] = result.Guard(func() error { return w.run(ctx) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// close closes lanes and target.
func (k *crew) close() error {
	var all error
	for _, w := range k.workers {
		all = errors.Join(all, w.lane.Close(), w.closeSource())
	}
	return errors.Join(all, k.target.Close())
}

// maxBytes is the longest I/O of a job.
func maxBytes(j *job.Job) int {
	n := int64(0)
	for d, used := range [2]bool{j.Reads, j.Writes} {
		if used {
			n = max(n, j.Blocks[d].MaxBytes)
		}
	}
	return int(n)
}
