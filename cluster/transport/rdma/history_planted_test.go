//go:build plantedbugs

package rdma_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/rdmatest"
	"github.com/spillway-kv/spillway/engine/planted"
)

// plantedHistoriesMax is how many histories a planted bug may survive.
const plantedHistoriesMax = 200

// TestPlanted switches the planted bugs of transports on, one at a time, and demands that
// the same random histories as everywhere catch each of them.
func TestPlanted(t *testing.T) {
	for _, bug := range planted.AllOfTransports() {
		t.Run(bug.String(), func(t *testing.T) {
			planted.Set(bug)
			defer planted.Set(planted.None)
			start := time.Now()
			for seed := uint64(1); seed <= plantedHistoriesMax; seed++ {
				h := rdmatest.Generate(seed, "")
				if res := rdmatest.Run(t, h, startForHistory); res.Err != nil {
					first, _, _ := strings.Cut(res.Err.Error(), "\n")
					t.Logf("%s: caught by history %d in %v (%s): %s", bug, seed, time.Since(start).Round(time.Millisecond), h.Mode, first)
					return
				}
			}
			t.Errorf("%s: not caught by %d histories", bug, plantedHistoriesMax)
		})
	}
}
