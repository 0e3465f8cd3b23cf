package arena

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	populateBytes   = 64 << 20 // one call brings in so much
	populateThreads = 16       // at most
)

// populate brings all pages of mem in, on all processors. Where memory is short
// the answer is an error, not a signal. It waits for the goroutines that it
// starts.
func populate(mem []byte) error {
	parts := slices.Collect(slices.Chunk(mem, populateBytes))
	errs := make([]error, min(runtime.GOMAXPROCS(0), populateThreads, len(parts)))
	var next atomic.Int64
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for errs[i] == nil {
				part := next.Add(1) - 1
				if part >= int64(len(parts)) {
					return
				}
				errs[i] = unix.Madvise(parts[part], unix.MADV_POPULATE_WRITE)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
