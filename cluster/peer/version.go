//go:build !peerboth && !peernext

package peer

// What this program speaks. Builds with the tags peerboth and peernext stand for later
// programs, in tests of upgrades.
const (
	versionLow  = 1
	versionHigh = 1
)
