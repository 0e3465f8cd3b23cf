//go:build plantedbugs

package rdma_test

import (
	"testing"

	"github.com/spillway-kv/spillway/engine/planted"
)

// TestRealTimePlanted: without the fence the history in real time fails.
func TestRealTimePlanted(t *testing.T) {
	planted.Set(planted.SkipFence)
	defer planted.Set(planted.None)
	for seed := range uint64(10) {
		if faults, _ := realOverSim(t, seed); len(faults) > 0 {
			t.Log(faults[0])
			return
		}
	}
	t.Error("ten histories without a fence, and none has a fault")
}
