package history

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine/device/sim"
)

// Bounds of virtual time. A call with a deadline must be back by then; the
// slack covers the store's own goroutines, which take no virtual time, and
// nothing else.
const (
	deadlineSlack = time.Millisecond
	callMax       = 120 * time.Second
	callMaxSlow   = 900 * time.Second // with transfers that are late or stuck
)

// callBook knows the calls in flight.
type callBook struct {
	mu     sync.Mutex
	flying map[*flight]struct{}
}

type flight struct {
	what  string
	since time.Time
	items int // of a put
}

func newCallBook() *callBook { return &callBook{flying: map[*flight]struct{}{}} }

// run runs one call. late is how long after its deadline it came back, if it
// had one.
func (b *callBook) run(what string, deadline time.Time, call func()) (late time.Duration) {
	return b.runPut(what, 0, deadline, call)
}

// runPut is run for a put of so many items.
func (b *callBook) runPut(what string, items int, deadline time.Time, call func()) (late time.Duration) {
	f := &flight{what, time.Now(), items}
	b.mu.Lock()
	b.flying[f] = struct{}{}
	b.mu.Unlock()
	call()
	b.mu.Lock()
	delete(b.flying, f)
	b.mu.Unlock()
	if !deadline.IsZero() {
		if deadline.Before(f.since) {
			deadline = f.since
		}
		late = time.Since(deadline)
	}
	return late
}

// evictionsMax is how many blocks the puts in flight may evict: one for each of
// their blocks, and a segment of another namespace.
func (b *callBook) evictionsMax() (n int) {
	const segmentBlocksMax = 16
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range b.flying {
		if f.items > 0 {
			n += f.items + segmentBlocksMax
		}
	}
	return n
}

// any reports whether a call is in flight.
func (b *callBook) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.flying) > 0
}

// overdue names a call that should have returned, "" if there is none.
func (b *callBook) overdue(slow bool) string {
	limit := callMax
	if slow {
		limit = callMaxSlow
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range b.flying {
		if time.Since(f.since) > limit {
			return fmt.Sprintf("%s has run for %v", f.what, time.Since(f.since))
		}
	}
	return ""
}

// storeLog hands the store's lines to the log book, and lifts the leases when
// the capacity took segments whole.
type storeLog struct{ r *runner }

func (l storeLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l storeLog) Handle(_ context.Context, rec slog.Record) error {
	if strings.Contains(rec.Message, "outgrew its reserve") {
		l.r.model.endLeases()
	}
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.r.log.printf("  store: %s", text)
	return nil
}

func (l storeLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l storeLog) WithGroup(string) slog.Handler      { return l }

// watch looks for calls that do not return.
func (r *runner) watch(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Second):
		}
		what := r.calls.overdue(r.model.excuse.slow)
		if what == "" {
			continue
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		r.fail("HANG: %s\n%s", what, stacks)
		r.disk.SetFaults(sim.Plan{})
		r.disk.Kill()
		time.Sleep(1000 * time.Second)
		if r.calls.overdue(true) != "" {
			panic(fmt.Sprintf("history %d (%s): %s, not even after a kill\n%s", r.h.Seed, r.h.Mode, what, stacks))
		}
	}
}

// logBook keeps the last lines.
type logBook struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func newLogBook() *logBook { return &logBook{start: time.Now()} }

func (b *logBook) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) > 400 {
		b.lines = append(b.lines[:0], b.lines[200:]...)
	}
	b.lines = append(b.lines, fmt.Sprintf("%-12v ", time.Since(b.start))+fmt.Sprintf(format, args...))
}

func (b *logBook) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}
