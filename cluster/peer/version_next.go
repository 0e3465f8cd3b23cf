//go:build peernext

package peer

// A program yet later that has given the first version up.
const (
	versionLow  = 2
	versionHigh = 2
)
