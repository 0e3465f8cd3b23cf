package historytest

import (
	"fmt"
	"sync"
	"time"
)

// Bounds of virtual time: what the code's own goroutines do takes none.
const (
	slack    = time.Millisecond
	localMax = 45 * time.Millisecond  // of a get of blocks that are all here: less than MatchTime
	matchMax = 200 * time.Millisecond // pool.Options.MatchTime, and the drive
	eraseMax = 12 * time.Second       // twice pool.EraseOptions.Time, for a drop that comes in between
	callMax  = time.Minute
)

// callBook knows the calls in flight.
type callBook struct {
	mu     sync.Mutex
	flying map[*flight]struct{}
}

type flight struct {
	what  string
	until time.Time
}

// run runs one call, which is to be back by its deadline, or within most.
func (b *callBook) run(c *caller, deadline time.Time, most time.Duration, call func()) {
	f := &flight{what: c.name, until: time.Now().Add(most)}
	b.mu.Lock()
	b.flying[f] = struct{}{}
	b.mu.Unlock()
	if deadline.IsZero() {
		deadline = f.until
	}
	call()
	b.mu.Lock()
	delete(b.flying, f)
	b.mu.Unlock()
	if late := time.Since(deadline); late > slack && !c.l.isDead() {
		c.r.fail("HANG: %s came back %v after its time", c.name, late)
	}
}

// overdue names a call that should have come back long ago.
func (b *callBook) overdue() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range b.flying {
		if time.Since(f.until) > 2*time.Minute {
			return f.what
		}
	}
	return ""
}

// watch looks for calls that do not come back, and for a run that does not end.
func (r *runner) watch(stop <-chan struct{}) {
	for began := time.Now(); ; {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Second):
		}
		what := r.calls.overdue()
		if what == "" && time.Since(began) > virtualTimeMax {
			what = "the run"
		}
		if what != "" {
			panic(fmt.Sprintf("cluster history %d (%s): HANG: %s does not come back\n%s\n%s", r.h.Seed, r.h.Mode, what, r.log.tail(), stacks()))
		}
	}
}

// virtualTimeMax is what no history takes, by far.
const virtualTimeMax = time.Hour
