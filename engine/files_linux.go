package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// filesReserve is how many open files a store needs beside its segments: those
// of the index (64 at most), the log, the lock, the device, and some of the
// process's own.
const filesReserve = 100

// segmentsMax is how many segments the limit of open files allows at once. The
// device has raised the soft limit to the hard one.
func segmentsMax() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur <= filesReserve {
		return 0, fmt.Errorf("a store needs more than %d open files, this process may have %d: raise the limit (ulimit -n)",
			filesReserve, limit.Cur)
	}
	return int(min(limit.Cur-filesReserve, slotsMax)), nil
}
