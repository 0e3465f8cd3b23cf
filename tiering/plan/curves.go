package plan

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Curves runs all configurations over the trace, as many at once as there are cores
// for Go, and answers their rows in the order of the configurations. done, if set, is
// told how many have ended, from any goroutine. The error is the first that any met;
// the others are then given up.
func Curves(ctx context.Context, t *Trace, configs []Config, done func(int)) ([]*Row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rows := make([]*Row, len(configs))
	var next, ended atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(configs)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(configs); i = int(next.Add(1)) - 1 {
				row, err := Simulate(ctx, t, configs[i])
				if err != nil {
					cancel(err)
					return
				}
				rows[i] = row
				if n := int(ended.Add(1)); done != nil {
					done(n)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return rows, nil
}
