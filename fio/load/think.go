package load

import "github.com/spillway-kv/spillway/fio/job"

// Think puts a job's think time around a source: after ThinkBlocks ops no other
// begins until all have ended and ThinkTime has passed. It is for closed loops:
// an op with an intended start keeps it, so that the pause shows as latency.
type Think struct {
	source   Source
	every    int64
	pauseNS  int64
	begun    int64 // ops since the last pause
	inFlight int64
	resumeNS int64 // the end of the pause, once inFlight is 0 and begun is every
}

// NewThink puts the think time of j around source.
func NewThink(source Source, j *job.Job) *Think {
	return &Think{source: source, every: max(1, j.ThinkBlocks), pauseNS: j.ThinkTime.Nanoseconds()}
}

// Next answers an op of the source, Wait while it thinks, or End.
func (t *Think) Next(nowNS int64, op *Op) Answer {
	if t.begun == t.every {
		if t.inFlight > 0 {
			op.IntendedNS = AtOnce
			return Wait
		}
		if nowNS < t.resumeNS {
			op.IntendedNS = t.resumeNS
			return Wait
		}
		t.begun = 0
	}
	answer := t.source.Next(nowNS, op)
	if answer == Ready {
		t.begun++
		t.inFlight++
	}
	return answer
}

// Done tells the source, and begins the pause with the last op.
func (t *Think) Done(op *Op, outcome Outcome, nowNS int64) {
	t.source.Done(op, outcome, nowNS)
	if t.inFlight--; t.inFlight == 0 {
		t.resumeNS = nowNS + t.pauseNS
	}
}
