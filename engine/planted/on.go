//go:build plantedbugs

package planted

import (
	"os"
	"sync/atomic"
)

var active atomic.Uint32

// Active reports whether b is switched on.
func Active(b Bug) bool { return Bug(active.Load()) == b }

// Set switches b on and every other off; None switches all off.
func Set(b Bug) bool { active.Store(uint32(b)); return true }

// A whole program of this build has the bug that its environment names.
func init() {
	name := os.Getenv("SPILLWAY_PLANTED")
	for b := range bugCount {
		if name == b.String() {
			Set(b)
			return
		}
	}
	if name != "" {
		panic("SPILLWAY_PLANTED names no bug: " + name)
	}
}
