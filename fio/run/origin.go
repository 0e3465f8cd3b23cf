package run

import (
	"context"

	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
)

// counting looks at what the target of a job counts, if it does, at the start of the job and
// when the function that it returns is called.
func (k *crew) counting(ctx context.Context) (end func()) {
	t, counts := k.target.(target.Counter)
	if !counts {
		return func() {}
	}
	path := k.target.Facts().Path
	before, err := t.Counts(ctx)
	return func() {
		span := result.OriginSpan{Daemon: path, Before: before, Err: err}
		if err == nil {
			// The job may have been interrupted: what it did counts all the same.
			span.After, span.Err = t.Counts(context.WithoutCancel(ctx))
		}
		k.workers[0].recorder.Origin(span)
	}
}
