package history_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine/history"
)

// firstSeed is the seed of the first history. The environment changes what runs:
//
//	SPILLWAY_LONG=1        10,000 histories, other ones, instead of a few hundred; 100 of them on real rings
//	SPILLWAY_HISTORIES=N   N histories, with SPILLWAY_FROM=N from that seed on
//	SPILLWAY_MODE=MODE     all of one mode; see history.Modes
//	SPILLWAY_SEED=N        the history of one seed only
//	SPILLWAY_HISTORY=FILE  the history in a file that a failure has left, 20 times
//	SPILLWAY_NOSHRINK=1    a failing history is not made smaller
//	SPILLWAY_TRACE=1       every seed is printed before it runs, to find one that crashes
const firstSeed = 1

func histories(t *testing.T) (first uint64, n int) {
	number := func(name string) (int, bool) {
		v := os.Getenv(name)
		if v == "" {
			return 0, false
		}
		i, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("%s=%q: %v", name, v, err)
		}
		return i, true
	}
	if seed, ok := number("SPILLWAY_SEED"); ok {
		return uint64(seed), 1
	}
	first = firstSeed
	n = 300
	if raceEnabled || testing.Short() {
		n = 25
	}
	if os.Getenv("SPILLWAY_LONG") != "" {
		first, n = 1_000_000, 10_000
	}
	if wanted, ok := number("SPILLWAY_HISTORIES"); ok {
		n = wanted
	}
	if from, ok := number("SPILLWAY_FROM"); ok {
		first = uint64(from)
	}
	return first, n
}

func limits() history.Limits {
	return history.Limits{NoMeddling: raceEnabled, Mode: history.Mode(os.Getenv("SPILLWAY_MODE"))}
}

// TestHistories runs random histories and demands that no promise is broken.
func TestHistories(t *testing.T) {
	if file := os.Getenv("SPILLWAY_HISTORY"); file != "" {
		replay(t, file)
		return
	}
	first, n := histories(t)
	var mu sync.Mutex
	var sum history.Figures
	perMode := map[history.Mode]int{}
	start := time.Now()
	t.Run("all", func(t *testing.T) {
		shards := min(runtime.GOMAXPROCS(0), n)
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := first + uint64(shard); seed < first+uint64(n); seed += uint64(shards) {
					h := history.Generate(seed, limits())
					figures := run(t, h)
					mu.Lock()
					add(&sum, figures)
					perMode[h.Mode]++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d histories in %v: %v; %+v", n, time.Since(start).Round(time.Second), perMode, sum)
	if n >= 25 && (sum.Hits == 0 || sum.Misses == 0 || sum.Lates == 0 || sum.Evicted == 0 || sum.Crashes == 0 || sum.Injected == 0) {
		t.Errorf("the histories are too tame: %+v", sum)
	}
}

// run runs one history and fails the test if it breaks a promise.
func run(t *testing.T, h *history.History) history.Figures {
	if os.Getenv("SPILLWAY_TRACE") != "" {
		fmt.Fprintf(os.Stderr, "history %d (%s)\n", h.Seed, h.Mode)
	}
	res := history.Run(t, h)
	if res.Err != nil {
		report(t, h, res.Err)
	}
	return res.Figures
}

func add(sum *history.Figures, f history.Figures) {
	sum.Ops += f.Ops
	sum.Puts += f.Puts
	sum.Hits += f.Hits
	sum.Misses += f.Misses
	sum.Lates += f.Lates
	sum.Lost += f.Lost
	sum.Evicted += f.Evicted
	sum.Lives += f.Lives
	sum.Crashes += f.Crashes
	sum.Injected += f.Injected
}

// report shrinks a failing history, keeps it in a file and fails the test.
func report(t *testing.T, h *history.History, err error) {
	t.Helper()
	small, smallErr := h, err
	if os.Getenv("SPILLWAY_NOSHRINK") == "" {
		small, smallErr = history.Shrink(t, h, err, time.Minute)
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("spillway-history-%d.json", h.Seed))
	if text, err := json.MarshalIndent(small, "", " "); err == nil {
		_ = os.WriteFile(name, text, 0o644)
	}
	t.Fatalf("history %d (%s) broke a promise; SPILLWAY_SEED=%d repeats it, SPILLWAY_HISTORY=%s its smallest form of %d operations\nfirst: %v\n\nsmallest: %v",
		h.Seed, h.Mode, h.Seed, name, small.Operations(), err, smallErr)
}

func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var h history.History
	if err := json.Unmarshal(text, &h); err != nil {
		t.Fatal(err)
	}
	for try := range 20 {
		if res := history.Run(t, &h); res.Err != nil {
			t.Fatalf("try %d: %v", try, res.Err)
		}
	}
	t.Log("20 runs broke no promise")
}

// TestReplayable: a seed gives one history, and a file keeps all of it.
func TestReplayable(t *testing.T) {
	for seed := range uint64(50) {
		h := history.Generate(seed, limits())
		if !reflect.DeepEqual(h, history.Generate(seed, limits())) {
			t.Fatalf("seed %d gives two histories", seed)
		}
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var back history.History
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(h, &back) {
			t.Fatalf("seed %d: a file changes the history", seed)
		}
	}
}
