package sim

import (
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// queue is the completions of one kind.
type queue struct {
	q     *queuePair
	news  chan struct{} // of capacity 1: there may be something
	inUse sync.Mutex    // held by Wait

	list []ended // guarded by Network.mu
}

// ended is a completion that nobody has taken.
type ended struct {
	fabric.Completion
	writes int // whose room in the queue comes back when it is taken
}

func newQueue(q *queuePair) *queue { return &queue{q: q, news: make(chan struct{}, 1)} }

func (c *queue) addLocked(e fabric.Completion, writes int) {
	c.list = append(c.list, ended{e, writes})
	c.signal()
}

func (c *queue) signal() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Poll takes what is there.
func (c *queue) Poll(into []fabric.Completion) int {
	n := c.q.net()
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.q.d.port.m.stopped || c.q.destroyed {
		return 0
	}
	taken := min(len(into), len(c.list))
	for i, e := range c.list[:taken] {
		into[i] = e.Completion
		c.q.posted -= e.writes
	}
	c.list = c.list[taken:]
	return taken
}

// Wait takes at least one.
func (c *queue) Wait(into []fabric.Completion) (int, error) {
	c.inUse.Lock()
	defer c.inUse.Unlock()
	for {
		if taken := c.Poll(into); taken > 0 {
			return taken, nil
		}
		select {
		case <-c.q.gone:
			return 0, fabric.ErrClosed
		case <-c.q.net().ending:
			return 0, fabric.ErrClosed
		case <-c.news:
		}
	}
}

// left returns when no Wait is under way any more.
func (c *queue) left() {
	c.inUse.Lock()
	defer c.inUse.Unlock()
}
