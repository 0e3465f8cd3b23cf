package target

import (
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/fio/load"
)

// crew carries out I/Os of a target whose calls wait: one goroutine for each call
// that may be in flight, or none for a lone one, which the worker's own goroutine
// does. Neighbours of a chain that are handed over together are one call.
type crew struct {
	do      func(call []*IO) // root first; ends all of them with endCall
	work    chan []*IO
	members sync.WaitGroup
}

// newCrew makes a crew for depth I/Os at once. offload keeps even a lone one off
// the worker's goroutine.
func newCrew(depth int, offload bool, do func(call []*IO)) *crew {
	c := &crew{do: do}
	if depth == 1 && !offload {
		return c
	}
	c.work = make(chan []*IO, depth)
	for range depth {
		c.members.Go(func() {
			for call := range c.work {
				c.do(call)
			}
		})
	}
	return c
}

func (c *crew) submit(ios []*IO) {
	for len(ios) > 0 {
		n := 1
		for n < len(ios) && neighbours(ios[n-1], ios[n]) {
			n++
		}
		call := callOf(ios[:n])
		ios = ios[n:]
		if c.work == nil {
			c.do(call)
		} else {
			c.work <- call // there is room for all that may be in flight
		}
	}
}

// neighbours says whether b continues a's call: reads of a chain come root first,
// writes tail first.
func neighbours(a, b *IO) bool {
	step := 1
	if a.Kind == load.Write {
		step = -1
	}
	return a.Chain != 0 && a.Chain == b.Chain && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Bytes == b.Bytes &&
		int64(a.Depth)+int64(step) == int64(b.Depth)
}

// callOf lists ios root first, in memory of the first one listed: it belongs to the
// call until that IO has ended.
func callOf(ios []*IO) []*IO {
	owner := ios[0]
	if owner.Kind == load.Write {
		owner = ios[len(ios)-1]
	}
	owner.call = append(owner.call[:0], ios...)
	if owner.Kind == load.Write {
		slices.Reverse(owner.call)
	}
	return owner.call
}

// endCall tells that a call has ended at a time, its owner last. Outcomes are set.
func endCall(call []*IO, at time.Time) {
	for i := len(call) - 1; i >= 0; i-- {
		io := call[i]
		io.EndedAt, io.More = at, i > 0
		io.ended(io)
	}
}

func (c *crew) close() {
	if c.work != nil {
		close(c.work)
		c.members.Wait()
	}
}
