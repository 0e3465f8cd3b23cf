package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/replay"
)

// How often progress is shown: on a terminal one line is rewritten, elsewhere
// each is a line of its own.
const (
	progressTerminal = 200 * time.Millisecond
	progressLog      = 5 * time.Second
)

// progress shows how far a replay is.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	requests int           // that will come; 0 if unknown
	limit    time.Duration // of the run; 0 if none
	started  time.Time
	shown    time.Time
	width    int // of the line on the terminal
}

func newProgress(st *state, requests int, limit time.Duration) *progress {
	now := st.now()
	return &progress{w: st.stderr, terminal: st.stderrTTY, now: st.now, requests: requests, limit: limit, started: now, shown: now}
}

// after is called after each request.
func (p *progress) after(r *replay.Result) {
	now := p.now()
	interval := progressLog
	if p.terminal {
		interval = progressTerminal
	}
	if now.Sub(p.shown) < interval {
		return
	}
	p.shown = now
	line := p.line(r, now.Sub(p.started))
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.width, line)
	p.width = len(line)
}

// clear leaves a terminal's line empty for what comes next.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
	}
}

func (p *progress) line(r *replay.Result, elapsed time.Duration) string {
	rate := float64(r.Requests) / elapsed.Seconds()
	line := fmt.Sprintf("%d requests, %.0f/s, prefix hits %.1f %%", r.Requests, rate, 100*ratio(r.PrefixHits, r.BlockRefs))
	if left, known := p.left(r, elapsed); known {
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return line
}

// left is the time to the end of the run, where a limit tells it.
func (p *progress) left(r *replay.Result, elapsed time.Duration) (time.Duration, bool) {
	var left time.Duration
	known := false
	if p.requests > 0 && r.Requests > 0 {
		left = time.Duration(float64(elapsed) * (float64(p.requests)/float64(r.Requests) - 1))
		known = true
	}
	if p.limit > 0 && (!known || p.limit-elapsed < left) {
		left, known = p.limit-elapsed, true
	}
	return max(left, 0), known
}
