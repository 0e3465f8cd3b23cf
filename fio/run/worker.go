package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
)

// worker is one clone of a job.
type worker struct {
	k        *crew
	j        *job.Job
	lane     target.Lane
	recorder *result.Recorder
	keyed    bool
	depth    int // I/Os in flight at most
	maker    payload.Maker
	config   load.Config

	source load.Source
	work   *load.Work // what source comes from; nil after it is closed

	free  []*target.IO
	batch []*target.IO // to be submitted now
	ended []*target.IO
	fills []*target.IO // reads that missed, to become writes
	mail  *mailbox

	op      load.Op // of the source, waiting for its time
	held    bool    // op is one
	askAt   time.Time
	over    bool // no op is begun any more
	ran     bool // the source has ended by itself
	failed  bool // an error has ended the worker
	started time.Time
	endAt   time.Time // zero: when the source ends
	beginAt time.Time // end of the ramp; zero once it is over
	pace    *time.Timer
	alarm   *time.Timer // for endAt and beginAt

	// What others look at while it runs.
	begun     atomic.Int64 // ops
	doneOps   atomic.Int64 // since the ramp
	doneBytes atomic.Int64 // since the ramp
	totals    atomic.Int64 // bytes to do; 0: unknown
	startedNS atomic.Int64 // on the clock of the run; 0: not yet
}

// run is the worker's goroutine.
func (w *worker) run(ctx context.Context) error {
	if !w.delay(ctx) {
		return nil
	}
	w.start()
	defer w.pace.Stop()
	defer w.alarm.Stop()
	err := w.loop(ctx)
	if err == nil && w.ran && w.work != nil {
		err = w.work.Err()
	}
	if err == nil && !w.over {
		panic("run: a worker ended with work to do")
	}
	if err == nil && ctx.Err() == nil && w.j.Writes && w.j.Verify != job.CheckNone && w.j.DoVerify && !w.j.VerifyOnly && !w.failed && w.j.Trace == "" && w.j.Chat.Sessions == 0 {
		err = w.readBack(ctx)
	}
	w.recorder.End(w.sinceStart(time.Now()))
	return err
}

// delay waits for startdelay; false if that was for nothing.
func (w *worker) delay(ctx context.Context) bool {
	wait := w.j.StartDelay[0]
	if span := w.j.StartDelay[1] - wait; span > 0 {
		wait += time.Duration(rand.New(rand.NewPCG(w.config.Seed(w.j), 1)).Int64N(int64(span)))
	}
	if wait == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.k.stop:
	case <-ctx.Done():
	}
	return false
}

// start starts the worker's clock.
func (w *worker) start() {
	now := time.Now()
	w.started = now
	w.startedNS.Store(max(1, w.sinceStart(now)))
	w.totals.Store(max(0, w.config.TotalBytes))
	w.recorder.Begin(w.sinceStart(now))
	alarm := time.Duration(1 << 62)
	if w.j.Runtime > 0 {
		alarm = w.j.RampTime + w.j.Runtime
		w.endAt = now.Add(alarm)
	}
	if w.j.RampTime > 0 {
		alarm = w.j.RampTime
		w.beginAt = now.Add(alarm)
	}
	w.alarm = time.NewTimer(alarm)
	w.pace = time.NewTimer(1 << 62)
}

// sinceStart is t on the clock of the whole run.
func (w *worker) sinceStart(t time.Time) int64 { return t.Sub(w.k.r.c.Start).Nanoseconds() }

// loop begins ops and ends them until there is nothing more to do.
func (w *worker) loop(ctx context.Context) error {
	for {
		if err := w.issue(time.Now()); err != nil {
			return err
		}
		if w.over && len(w.free) == w.depth && len(w.fills) == 0 {
			return nil
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
		w.ended = w.mail.take(w.ended[:0])
		if len(w.ended) > 0 {
			w.recorder.Complete(len(w.ended))
		}
		for _, io := range w.ended {
			w.finish(io)
		}
	}
}

// issue begins all ops that can begin now, in one submission.
func (w *worker) issue(now time.Time) error {
	w.tell(now)
	w.batch = w.batch[:0]
	w.askAt = time.Time{}
	for len(w.fills) > 0 {
		io := w.fills[len(w.fills)-1]
		w.fills = w.fills[:len(w.fills)-1]
		w.load(io)
		w.batch = append(w.batch, io)
	}
	nowNS := now.Sub(w.started).Nanoseconds()
	for !w.over && len(w.free) > 0 && w.next(nowNS) {
		io := w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		w.held = false
		io.Op = w.op
		if err := w.place(io); err != nil {
			return err
		}
		w.load(io)
		w.batch = append(w.batch, io)
	}
	if len(w.batch) == 0 {
		return nil
	}
	w.begun.Add(int64(len(w.batch)))
	w.recorder.Submit(len(w.batch), w.depth-len(w.free))
	issued := time.Now()
	for _, io := range w.batch {
		io.IssuedAt = issued
	}
	w.lane.Submit(w.batch)
	return nil
}

// tell begins and ends what the clock begins and ends.
func (w *worker) tell(now time.Time) {
	if !w.beginAt.IsZero() && !now.Before(w.beginAt) {
		w.recorder.Begin(w.sinceStart(now))
		w.doneOps.Store(0)
		w.doneBytes.Store(0)
		w.beginAt = time.Time{}
		if !w.endAt.IsZero() {
			w.alarm.Reset(w.endAt.Sub(now))
		}
	}
	if !w.endAt.IsZero() && !now.Before(w.endAt) || w.k.stopping.Load() {
		w.over = true
	}
}

// next asks the source for the next op unless one is held, and reports whether it
// is to begin now; if not, askAt may say when to ask again.
func (w *worker) next(nowNS int64) bool {
	if !w.held {
		switch w.source.Next(nowNS, &w.op) {
		case load.End:
			w.over, w.ran = true, true
			return false
		case load.Wait:
			if w.op.IntendedNS != load.AtOnce {
				w.askAt = w.started.Add(time.Duration(w.op.IntendedNS))
			}
			return false
		}
		w.held = true
	}
	if w.op.IntendedNS > nowNS {
		w.askAt = w.started.Add(time.Duration(w.op.IntendedNS))
		return false
	}
	return true
}

// place gives an op that names a block its place in a target without keys.
func (w *worker) place(io *target.IO) error {
	if io.Bytes <= 0 || io.Bytes > maxBytes(w.j) {
		return fmt.Errorf("an I/O of %d bytes: the job's blocks have at most %d", io.Bytes, maxBytes(w.j))
	}
	if w.keyed || io.Offset != load.Anywhere {
		return nil
	}
	fit := uint64(w.lane.SpaceBytes() / int64(io.Bytes))
	if fit == 0 {
		return fmt.Errorf("no block of %d bytes fits into %d", io.Bytes, w.lane.SpaceBytes())
	}
	io.Offset = int64(io.Block%fit) * int64(io.Bytes)
	return nil
}

// load cuts the memory of an I/O to its length and fills what is to be written.
func (w *worker) load(io *target.IO) {
	io.SetBytes(io.Bytes)
	switch {
	case io.Kind != load.Write:
	case w.maker.Check != 0:
		w.maker.Fill(io.Data, w.lane.Identity(&io.Op))
	case w.j.RefillBuffers:
		payload.Noise(io.Data, io.Block^uint64(w.begun.Load())<<32, w.j.CompressPercent)
	default:
		payload.Stir(io.Data, io.Block^uint64(w.begun.Load())<<32)
	}
}
