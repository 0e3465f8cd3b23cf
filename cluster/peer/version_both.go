//go:build peerboth

package peer

// A later program that speaks the next version, too: here the same messages.
const (
	versionLow  = 1
	versionHigh = 2
)
