//go:build plantedbugs

package planted

import "sync/atomic"

var active atomic.Uint32

// Active reports whether b is switched on.
func Active(b Bug) bool { return Bug(active.Load()) == b }

// Set switches b on and every other off; None switches all off.
func Set(b Bug) bool { active.Store(uint32(b)); return true }
