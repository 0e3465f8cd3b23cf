package gpu

import (
	"context"
	"runtime"
	"time"
)

// How an event is waited for: small copies are done within the spin, long ones
// cost little while they run.
const (
	spinFor  = 20 * time.Microsecond
	sleepMin = 50 * time.Microsecond
	sleepMax = 100 * time.Microsecond
)

// poll asks done until it says so, fails, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	start, sleep := time.Now(), sleepMin
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(start) < spinFor {
			runtime.Gosched()
			continue
		}
		time.Sleep(sleep)
		sleep = min(sleep*5/4, sleepMax)
	}
}
