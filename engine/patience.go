package engine

import "time"

// patience is the channel that closes when a caller does not want to wait any
// longer: done, if it gave one, else at the deadline, if it gave that. stop gives
// the timer back.
func patience(deadline time.Time, done <-chan struct{}) (over <-chan struct{}, stop func()) {
	if done != nil || deadline.IsZero() {
		return done, func() {}
	}
	passed := make(chan struct{})
	timer := time.AfterFunc(time.Until(deadline), func() { close(passed) })
	return passed, func() { timer.Stop() }
}
