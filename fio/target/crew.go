package target

import "sync"

// crew carries out I/Os of a target whose calls wait: one goroutine for each I/O
// that may be in flight, or none for a lone one, which the worker's own goroutine
// does.
type crew struct {
	do      func(*IO)
	work    chan *IO
	members sync.WaitGroup
}

// newCrew makes a crew for depth I/Os at once. offload keeps even a lone one off
// the worker's goroutine.
func newCrew(depth int, offload bool, do func(*IO)) *crew {
	c := &crew{do: do}
	if depth == 1 && !offload {
		return c
	}
	c.work = make(chan *IO, depth)
	for range depth {
		c.members.Go(func() {
			for io := range c.work {
				c.do(io)
			}
		})
	}
	return c
}

func (c *crew) submit(ios []*IO) {
	for _, io := range ios {
		if c.work == nil {
			c.do(io)
		} else {
			c.work <- io // there is room for all that may be in flight
		}
	}
}

func (c *crew) close() {
	if c.work != nil {
		close(c.work)
		c.members.Wait()
	}
}
