//go:build !invariants

package frame

// poison leaves released frames as they are in this build.
func poison([]byte) {}
