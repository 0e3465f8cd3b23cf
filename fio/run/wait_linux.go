package run

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timerSlack is how late the runtime's timers may be: it waits for the next
	// event in whole milliseconds.
	timerSlack = 2 * time.Millisecond
	// napLength is the longest nap between two looks at the mailbox. Nothing that
	// is measured depends on it: targets note when an I/O ended.
	napLength = 100 * time.Microsecond
)

// wait returns when an I/O has ended, or it is time to begin one, or to stop.
func (w *worker) wait(ctx context.Context) error {
	if !w.mail.empty() {
		return nil
	}
	if len(w.free) == w.depth && w.askAt.IsZero() && !w.over {
		return errors.New("the load waits for an I/O to end, and none is in flight")
	}
	if w.askAt.IsZero() || w.over {
		w.await(ctx, nil)
		return nil
	}
	for {
		left := time.Until(w.askAt)
		switch {
		case left <= 0:
			return nil
		case w.k.r.c.TimersOnly || left > timerSlack:
			if !w.k.r.c.TimersOnly {
				left -= timerSlack / 2
			}
			w.pace.Reset(left)
			if w.await(ctx, w.pace.C) {
				return nil
			}
		default:
			nap(min(left, napLength))
			if !w.mail.empty() || ctx.Err() != nil {
				return nil
			}
		}
	}
}

// await waits for the mailbox, the worker's alarm or a stop, and then reports true,
// or for pace, and reports false.
func (w *worker) await(ctx context.Context, pace <-chan time.Time) bool {
	if len(w.free) < w.depth && w.over { // only what is in flight
		<-w.mail.wake
		return true
	}
	select {
	case <-w.mail.wake:
	case <-w.alarm.C:
	case <-w.k.stop:
		w.over = true
	case <-ctx.Done():
		w.over = true
	case <-pace:
		return false
	}
	return true
}

// nap sleeps for a short time, more exactly than the runtime's timers do.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal ends it early: the caller looks at the clock
	runtime.Gosched()
}
