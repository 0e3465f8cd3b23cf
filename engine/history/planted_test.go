//go:build plantedbugs

package history_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine/history"
	"github.com/spillway-kv/spillway/engine/planted"
)

// plantedHistoriesMax is how many histories a planted bug may survive.
const plantedHistoriesMax = 1000

// TestPlanted switches the planted bugs on, one at a time, and demands that the
// same random histories as everywhere catch each of them.
func TestPlanted(t *testing.T) {
	if raceEnabled {
		t.Skip("most planted bugs are data races")
	}
	for _, bug := range planted.All() {
		if only := os.Getenv("SPILLWAY_PLANT"); only != "" && only != bug.String() {
			continue
		}
		t.Run(bug.String(), func(t *testing.T) { catch(t, bug) })
	}
}

func catch(t *testing.T, bug planted.Bug) {
	planted.Set(bug)
	defer planted.Set(planted.None)
	start := time.Now()
	for seed := uint64(firstSeed); seed < firstSeed+plantedHistoriesMax; seed++ {
		h := history.Generate(seed, limits())
		if res := history.Run(t, h); res.Err != nil {
			first, _, _ := strings.Cut(res.Err.Error(), "\n")
			t.Logf("%s: caught by history %d in %v (%s): %s", bug, seed-firstSeed+1,
				time.Since(start).Round(time.Millisecond), h.Mode, first)
			return
		}
	}
	t.Errorf("%s: not caught by %d histories", bug, plantedHistoriesMax)
}
