package gpu

import "golang.org/x/sys/unix"

// lock keeps mem from being swapped out if the system allows it, as registering
// does.
func lock(mem []byte) (unlock func()) {
	if unix.Mlock(mem) != nil {
		return func() {} // the limit is low; nothing depends on it
	}
	return func() { _ = unix.Munlock(mem) } // it was locked
}
