//go:build verbs && linux && cgo && plantedbugs

package rdma_test

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine/planted"
)

// TestVerbsPlanted: without the fence the history over real devices fails.
func TestVerbsPlanted(t *testing.T) {
	realPorts(t)
	planted.Set(planted.SkipFence)
	defer planted.Set(planted.None)
	for seed := range uint64(10) {
		if faults, _ := realOverVerbs(t, seed, 3*time.Second); len(faults) > 0 {
			t.Log(faults[0])
			return
		}
	}
	t.Error("ten histories without a fence, and none has a fault")
}
