package node

import "golang.org/x/sys/unix"

// lockedMemoryMax is how much memory this process may lock; -1: as much as there is.
func lockedMemoryMax() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur > 1<<62 {
		return -1
	}
	return int64(limit.Cur)
}
