package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// aliveTime is how long a node may keep its locks before it counts as stuck.
const aliveTime = 2 * time.Second

// Answers reports whether the node can answer: false if it does not within the
// time. A daemon without a node yet is alive.
func (v *View) Answers(within time.Duration) bool {
	n := v.node.Load()
	if n == nil {
		return true
	}
	done := make(chan struct{})
	go func() {
		n.Alive()
		close(done)
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// serveHealth says whether the process should be left alone: a sick drive is no
// reason to end it.
func (v *View) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if !v.Answers(aliveTime) {
		http.Error(w, "the node does not answer", http.StatusServiceUnavailable)
		return
	}
	text := []string{"ok"}
	s := v.State()
	for i := range s.Stores {
		if st := &s.Stores[i]; st.Health != "ok" {
			text = append(text, fmt.Sprintf("store %s is %s: %s", st.Dir, st.Health, st.HealthCause))
		}
	}
	for _, dir := range s.Missing {
		text = append(text, fmt.Sprintf("store %s could not be opened", dir))
	}
	if s.StoringNothing {
		text = append(text, "storing nothing: every put of the last minute was dropped")
	}
	fmt.Fprintln(w, strings.Join(text, "\n"))
}

// serveReady says whether clients are served.
func (v *View) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !v.ready.Load() {
		http.Error(w, *v.phase.Load(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}
