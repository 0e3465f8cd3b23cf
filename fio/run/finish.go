package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
)

// outcomes are the result's names of what a target answers.
var outcomes = [load.Outcomes]result.Outcome{
	load.OK: result.Done, load.Miss: result.Missed, load.Late: result.Late, load.Busy: result.Busy, load.Dropped: result.Dropped,
	load.Failed: result.Failed, load.Damage: result.Damaged, load.Unverified: result.Unverified, load.Present: result.Present,
}

// finish proves an ended I/O, counts it, and makes it free, or a write of what it
// did not find.
func (w *worker) finish(io *target.IO) {
	done := w.prove(io)
	entry := result.IO{Direction: result.Direction(io.Kind), Outcome: outcomes[io.Outcome], Bytes: int64(io.Bytes),
		IssuedNS: w.sinceStart(io.IssuedAt), DoneNS: w.sinceStart(done)}
	entry.IntendedNS, entry.SubmittedNS = entry.IssuedNS, -1
	if io.IntendedNS != load.AtOnce {
		entry.IntendedNS = w.sinceStart(w.started) + io.IntendedNS
	}
	if !io.StartedAt.IsZero() {
		entry.SubmittedNS = min(max(w.sinceStart(io.StartedAt), entry.IssuedNS), entry.DoneNS)
	}
	w.recorder.Record(entry)
	w.source.Done(&io.Op, io.Outcome, done.Sub(w.started).Nanoseconds())
	w.judge(io)
	if io.Outcome == load.OK {
		w.doneOps.Add(1)
		w.doneBytes.Add(int64(io.Bytes))
	}
	if io.Outcome == load.Miss && io.Kind == load.Read && io.FillOnMiss && !w.over {
		io.Kind, io.FillOnMiss, io.IntendedNS = load.Write, false, load.AtOnce
		w.fills = append(w.fills, io)
		return
	}
	w.free = append(w.free, io)
}

// prove compares what a verifying job has read with what must be there, and says
// when that was done. The proof counts as if it had begun when the target ended.
func (w *worker) prove(io *target.IO) time.Time {
	if w.j.Verify == job.CheckNone || io.Kind != load.Read || io.Outcome != load.OK {
		return io.EndedAt
	}
	began := time.Now()
	found, at := payload.Prove(io.Data, w.lane.Identity(&io.Op))
	switch found {
	case payload.Foreign:
		io.Outcome = load.Unverified
	case payload.Wrong:
		io.Outcome = load.Damage
		io.Err = fmt.Errorf("wrong bytes in the block at offset %d (block %d, %d bytes), from its byte %d on", io.Offset, io.Block, io.Bytes, at)
	}
	return io.EndedAt.Add(time.Since(began))
}

// judge notes an error, and ends the worker unless its job goes on after such.
func (w *worker) judge(io *target.IO) {
	survives := job.ReadErrors
	if io.Kind == load.Write {
		survives = job.WriteErrors
	}
	errno := 0
	switch io.Outcome {
	case load.Failed:
		errno = result.Errno(io.Err)
	case load.Damage:
		survives, errno = job.VerifyErrors, damageErrno
	default:
		return
	}
	cause := io.Err
	if cause == nil {
		cause = errors.New(io.Outcome.String())
	}
	w.recorder.Fail(errno, fmt.Sprintf("%v: %v", io.Kind, cause))
	if w.j.ContinueOnError&survives == 0 {
		w.over, w.failed = true, true
	}
}
