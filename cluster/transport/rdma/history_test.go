package rdma_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/rdmatest"
)

// Random histories, over simulated devices and a simulated network.

var (
	historySeed  = flag.Uint64("history.seed", 0, "run the history of this seed alone")
	historyFrom  = flag.Uint64("history.from", 1, "first seed of histories")
	historyCount = flag.Int("history.count", 0, "how many histories run; 0: as many as the form of the tests wants")
	historyMode  = flag.String("history.mode", "", "mode of all histories; empty: each draws its own")
	historyLog   = flag.Bool("history.log", false, "print what happens in each history")
)

func startForHistory(o rdma.Options) (transport.Transport, error) {
	t, err := rdma.New(o)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// TestHistories demands that no random history breaks a promise.
func TestHistories(t *testing.T) {
	first, n := *historyFrom, *historyCount
	switch {
	case *historySeed > 0:
		first, n = *historySeed, 1
	case n > 0:
	case os.Getenv("SPILLWAY_LONG") != "":
		first, n = 1_000_000, 5000
	case testing.Short() && raced:
		n = 5
	case testing.Short(), raced:
		n = 15
	default:
		n = 100
	}
	var mu sync.Mutex
	var sum rdmatest.Figures
	began := time.Now()
	shards := min(runtime.GOMAXPROCS(0), n)
	t.Run("all", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := first + uint64(shard); seed < first+uint64(n); seed += uint64(shards) {
					h := rdmatest.Generate(seed, rdmatest.Mode(*historyMode))
					res := rdmatest.Run(t, h, startForHistory)
					if *historyLog {
						t.Logf("history %d: %+v\n%s\n%+v", seed, h.Config, res.Log, res.Figures)
					}
					if res.Err != nil {
						t.Fatalf("history %d (%s) broke a promise; -history.seed %d repeats it: %v\n%s", seed, h.Mode, seed, res.Err, res.Log)
					}
					mu.Lock()
					sum.Add(res.Figures)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d histories from seed %d in %v: %+v", n, first, time.Since(began).Round(time.Second), sum)
	if n >= 50 && *historyMode == "" && (sum.Remote == 0 || sum.Late == 0 || sum.Lost == 0 || sum.Fallbacks == 0 || sum.Fences == 0 ||
		sum.Destroyed == 0 || sum.Crashes == 0 || sum.Orphans == 0) {
		t.Errorf("the histories are too tame: %+v", sum)
	}
}
