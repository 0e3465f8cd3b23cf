//go:build plantedbugs

package node

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool/historytest"
	"github.com/spillway-kv/spillway/engine/planted"
)

// plantedHistoriesMax is how many histories a planted bug may survive.
const plantedHistoriesMax = 1000

// TestPlantedInPools switches the planted bugs of pools on, one at a time, and demands that
// the same random histories as everywhere catch each of them; those of the way of blocks
// where that is RDMA.
func TestPlantedInPools(t *testing.T) {
	for _, bug := range append(planted.AllOfPools(), planted.AllOfTransports()...) {
		if only := os.Getenv("SPILLWAY_PLANT"); only != "" && only != bug.String() {
			continue
		}
		t.Run(bug.String(), func(t *testing.T) { catchInPools(t, bug, slices.Contains(planted.AllOfTransports(), bug)) })
	}
}

func catchInPools(t *testing.T, bug planted.Bug, overRDMA bool) {
	planted.Set(bug)
	defer planted.Set(planted.None)
	start := time.Now()
	for seed := uint64(1); seed <= plantedHistoriesMax; seed++ {
		h := historytest.Generate(seed, "")
		h.RDMA = overRDMA
		if res := historytest.Run(t, h, startForHistory); res.Err != nil {
			first, _, _ := strings.Cut(res.Err.Error(), "\n")
			t.Logf("%s: caught by history %d in %v (%s): %s", bug, seed, time.Since(start).Round(time.Millisecond), h.Mode, first)
			return
		}
	}
	t.Errorf("%s: not caught by %d histories", bug, plantedHistoriesMax)
}
