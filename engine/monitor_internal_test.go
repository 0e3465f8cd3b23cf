package engine

import (
	"log/slog"
	"testing"
	"time"
)

// TestSleepIsNoSickness: a process that was stopped does not take its own sleep for that
// of the drive; a drive that does not answer after it is still found out.
func TestSleepIsNoSickness(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for what, begin := range map[string]func(*Store){
		"transfer": func(s *Store) { s.startLocked(&transfer{}, start) },
		"sync":     func(s *Store) { s.monitor.commitSince = start },
	} {
		s := &Store{opts: Options{StuckAfter: 3 * time.Second}, log: slog.New(slog.DiscardHandler), progress: make(chan struct{})}
		look := func(second int) error {
			s.watchLocked(start.Add(time.Duration(second) * time.Second))
			return s.monitor.sick
		}
		for second := -5; second < 0; second++ {
			_ = look(second)
		}
		begin(s)
		for _, second := range []int{0, 1, 2, 60, 61, 62} {
			if err := look(second); err != nil {
				t.Errorf("%s: sick in second %d: %v", what, second, err)
			}
		}
		if look(63) == nil {
			t.Errorf("%s: not found out three seconds after the sleep", what)
		}
	}
}
