package engine

import "time"

// patience is the channel that closes when a caller does not want to wait any
// longer: done, if it gave one, else at the deadline, if it gave that. stop gives
// the timer back.
func patience(deadline time.Time, done <-chan struct{}) (over <-chan struct{}, stop func()) {
	if done != nil || deadline.IsZero() {
		return done, func() {}
	}
	end := make(chan struct{})
	timer := time.AfterFunc(time.Until(deadline), func() { close(end) })
	return end, func() { timer.Stop() }
}

// passed is a moment that lies behind.
var passed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
