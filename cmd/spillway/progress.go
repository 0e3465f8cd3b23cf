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

// meter shows the progress of long work on stderr, now and then.
type meter struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	shown    time.Time
	width    int // of the line on the terminal
}

func newMeter(st *state) meter {
	return meter{w: st.stderr, terminal: st.stderrTTY, now: st.now, shown: st.now()}
}

// show prints the line if it is time for one.
func (m *meter) show(line func(now time.Time) string) {
	now := m.now()
	interval := progressLog
	if m.terminal {
		interval = progressTerminal
	}
	if now.Sub(m.shown) < interval {
		return
	}
	m.shown = now
	if !m.terminal {
		fmt.Fprintln(m.w, line(now))
		return
	}
	text := line(now)
	fmt.Fprintf(m.w, "\r%-*s", m.width, text)
	m.width = len(text)
}

// clear leaves a terminal's line empty for what comes next.
func (m *meter) clear() {
	if m.width > 0 {
		fmt.Fprintf(m.w, "\r%*s\r", m.width, "")
	}
}

// progress shows how far a replay is.
type progress struct {
	meter
	requests int           // that will come; 0 if unknown
	limit    time.Duration // of the run; 0 if none
	started  time.Time
}

func newProgress(st *state, requests int, limit time.Duration) *progress {
	return &progress{meter: newMeter(st), requests: requests, limit: limit, started: st.now()}
}

// after is called after each request.
func (p *progress) after(r *replay.Result) {
	p.show(func(now time.Time) string { return p.line(r, now.Sub(p.started)) })
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
