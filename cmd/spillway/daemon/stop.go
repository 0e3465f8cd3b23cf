package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
)

// ErrStuck says that something under way did not end in time.
var ErrStuck = errors.New("did not end in time")

// stop lets requests end, cuts the rest short and closes the stores, each within
// the stop time.
func (d *daemon) stop(path *node.Reservation) error {
	limit := d.config.Limits.StopTime.Duration
	d.log.Info("stopping")
	d.notify.send("STOPPING=1", "STATUS=stopping")
	d.view.SetPhase("stopping")
	d.view.End()
	path.Unlisten()
	d.pool.leaving()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := within(2*limit+time.Second+leaveTime, "requests", func() error {
		switch err := d.node.Close(ctx); {
		case errors.Is(err, context.DeadlineExceeded):
			d.log.Warn("requests were cut short", "after", limit)
		case err != nil:
			d.log.Warn("the node was not closed as it should be", "cause", err)
		}
		if err := d.pool.leave(); err != nil {
			d.log.Warn("the pool was not left as it should be", "cause", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.closeStores(); err != nil {
		return err
	}
	d.log.Info("stopped")
	return nil
}

// closeStores closes all that are open, in parallel.
func (d *daemon) closeStores() error {
	ended := make([]chan error, len(d.stores))
	for i, s := range d.stores {
		ended[i] = make(chan error, 1)
		go func() { ended[i] <- s.Close() }()
	}
	return within(d.config.Limits.StopTime.Duration+closeTime, "closing the stores", func() error {
		var errs []error
		for i := range ended {
			if err := <-ended[i]; err != nil {
				errs = append(errs, fmt.Errorf("a store was not closed well: %w", err))
			}
		}
		return errors.Join(errs...)
	})
}

// closeTime is how long a store may take to close beyond the stop time: it flushes
// its index.
const closeTime = 60 * time.Second

// within waits for f, which goes on beyond the limit if it must: the process is to
// end then.
func within(limit time.Duration, what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s: %w (%v); nothing is damaged, the next start recovers", what, ErrStuck, limit)
	}
}
