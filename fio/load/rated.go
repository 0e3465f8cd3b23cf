package load

import "github.com/spillway-kv/spillway/fio/job"

// Rated gives the ops of a Pattern intended starts, each direction at the job's
// rate for it. A direction without a rate stays closed. With both directions
// rated each keeps its own rate, whatever the mix, as in fio.
type Rated struct {
	pattern *Pattern
	due     [2]*arrivals // nil: no rate
	kind    Kind         // drawn for the next op
	drawn   bool
}

// NewRated schedules p by a job's rate, rate_iops and rate_process, divided by
// parts: what one of so many equal sources gets of it.
func NewRated(p *Pattern, j *job.Job, parts int, seed uint64) *Rated {
	r := &Rated{pattern: p}
	for kind := range Kind(Kinds) {
		switch {
		case !p.has(kind):
		case j.RateIOPS[kind] > 0:
			r.due[kind] = perSecond(float64(j.RateIOPS[kind])/float64(parts), j.Poisson, seed, uint64(kind))
		case j.RateBytes[kind] > 0:
			r.due[kind] = bytesPerSecond(max(1, j.RateBytes[kind]/int64(parts)), p.lengths[kind].MinBytes, j.Poisson, seed, uint64(kind))
		}
	}
	return r
}

// Next answers the next op with its intended start, which may lie ahead, or End.
func (r *Rated) Next(nowNS int64, op *Op) Answer {
	p := r.pattern
	if p.over() {
		return End
	}
	if !r.drawn {
		r.kind, r.drawn = p.drawKind(), true
	}
	kind := r.kind
	if other := 1 - kind; p.has(other) && r.dueNS(kind) > nowNS && r.dueNS(other) < r.dueNS(kind) {
		kind = other // the drawn direction is ahead of its rate
	} else {
		r.drawn = false
	}
	due := r.due[kind]
	p.fill(op, kind)
	if due != nil {
		op.IntendedNS = due.dueNS()
		due.started(op.Bytes)
	}
	return Ready
}

// dueNS is when a direction may start; without a rate, always.
func (r *Rated) dueNS(kind Kind) int64 {
	if r.due[kind] == nil {
		return AtOnce
	}
	return r.due[kind].dueNS()
}

// Done does nothing.
func (r *Rated) Done(*Op, Outcome, int64) {}
