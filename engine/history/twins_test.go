package history_test

import (
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/history"
)

// TestTwins runs equal histories, of one client and without faults, on the
// simulated disk and in real directories: they must be answered equally.
func TestTwins(t *testing.T) {
	n := uint64(5)
	if raceEnabled || testing.Short() {
		n = 2
	}
	for seed := uint64(1); seed <= n; seed++ {
		h := history.Generate(seed, history.Limits{Mode: history.Calm, Calm: true})
		if h.Config.Policy == evict.Hazard { // goes by time, which passes otherwise on a real drive
			h.Config.Policy = evict.LRU
		}
		want, err := history.Answers(t, h, history.Where{})
		if err != nil || len(want) == 0 {
			t.Fatalf("history %d on sim: %d answers, %v", seed, len(want), err)
		}
		for _, engine := range []string{device.EnginePsync, device.EngineUring, device.EngineAuto} {
			got, err := history.Answers(t, h, history.Where{Dir: t.TempDir(), IOEngine: engine})
			if err != nil {
				t.Fatalf("history %d on %s: %v", seed, engine, err)
			}
			compare(t, seed, engine, want, got)
		}
	}
}

func compare(t *testing.T, seed uint64, engine string, want, got []string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("history %d, answer %d: sim %q, %s %q", seed, i, want[i], engine, got[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("history %d: %d answers on sim, %d on %s", seed, len(want), len(got), engine)
	}
}

// TestRealHistories runs histories of many clients at once, some of which change
// memory that is not theirs at the moment, in a real directory through io_uring.
// The environment variables of histories apply.
func TestRealHistories(t *testing.T) {
	first, n := histories(t)
	n = max(n/100, 2)
	for _, engine := range []string{device.EngineUring, device.EngineAuto} {
		t.Run(engine, func(t *testing.T) {
			if err := device.ProbeUring(); err != nil {
				t.Skipf("no io_uring here: %v", err)
			}
			var sum history.Figures
			for i := range n {
				mode := []history.Mode{history.Calm, history.Clients}[i%2]
				h := history.Generate(first+uint64(i), history.Limits{NoMeddling: raceEnabled, Mode: mode})
				res := history.Real(h, history.Where{Dir: t.TempDir(), IOEngine: engine})
				if res.Err != nil {
					t.Fatalf("history %d (%s): %v", h.Seed, mode, res.Err)
				}
				add(&sum, res.Figures)
			}
			t.Logf("%d histories from seed %d: %+v", n, first, sum)
			if n >= 10 && (sum.Hits == 0 || sum.Misses == 0 || sum.Evicted == 0) {
				t.Errorf("the histories are too tame: %+v", sum)
			}
		})
	}
}

// TestTwinsByID runs equal histories by key and by ID: they must be answered equally.
func TestTwinsByID(t *testing.T) {
	n := uint64(20)
	if raceEnabled || testing.Short() {
		n = 5
	}
	for seed := uint64(1); seed <= n; seed++ {
		h := history.Generate(seed, history.Limits{Mode: history.Calm, Calm: true})
		var answers [2][]string
		for byID := range answers {
			for _, l := range h.Lives {
				for _, ops := range l.Clients {
					for i := range ops {
						ops[i].ByID = byID == 1
					}
				}
			}
			var err error
			if answers[byID], err = history.Answers(t, h, history.Where{}); err != nil || len(answers[byID]) == 0 {
				t.Fatalf("history %d: %d answers, %v", seed, len(answers[byID]), err)
			}
		}
		compare(t, seed, "by ID", answers[0], answers[1])
	}
}
