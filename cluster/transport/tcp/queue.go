package tcp

import "sync"

// item is a message or a block on its way out.
type item struct {
	h    header  // Offset and Length are of the next chunk
	body []byte  // a message: ours
	m    *memory // a block: the queue closes it when all of it is written
	left int     // chunks that are not written
}

// queue holds what is to be sent over the connections of one kind. Calls take turns,
// chunk by chunk; what one call sends goes in order.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond // there is something to take, or a beat to send, or it is closed
	lanes  map[uint64]*lane
	turns  []*lane // those that have something, each once
	bytes  int     // of messages that nobody has taken
	room   chan struct{}
	closed bool
}

type lane struct {
	call  uint64
	items []*item
}

func newQueue() *queue {
	q := &queue{lanes: map[uint64]*lane{}}
	q.filled.L = &q.mu
	return q
}

// add queues items of one call; false if the queue is closed.
func (q *queue) add(items ...*item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	for _, it := range items {
		it.left = chunks(it.h.Total)
		l := q.lanes[it.h.Call]
		if l == nil {
			l = &lane{call: it.h.Call}
			q.lanes[it.h.Call] = l
			q.turns = append(q.turns, l)
		}
		l.items = append(l.items, it)
		q.bytes += it.weight()
		q.filled.Signal()
	}
	return true
}

// take waits for the next chunk; the header is its own. A nil item is a beat to be
// sent, which wanted told; false: closed.
func (q *queue) take(wanted func() bool) (*item, header, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return nil, header{}, false
		case wanted():
			return nil, header{}, true
		case len(q.turns) > 0:
			it, h := q.nextLocked()
			return it, h, true
		}
		q.filled.Wait()
	}
}

// more is take without waiting, for messages that go together.
func (q *queue) more() (*item, header, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.turns) == 0 {
		return nil, header{}, false
	}
	it, h := q.nextLocked()
	return it, h, true
}

func (q *queue) nextLocked() (*item, header) {
	l := q.turns[0]
	q.turns[0] = nil
	q.turns = q.turns[1:]
	it := l.items[0]
	h := it.h
	h.Length = min(h.Total-h.Offset, chunkBytes)
	it.h.Offset += h.Length
	if it.h.Offset == h.Total {
		q.releaseLocked(it)
		l.items[0] = nil
		l.items = l.items[1:]
	}
	if len(l.items) > 0 {
		q.turns = append(q.turns, l)
	} else {
		delete(q.lanes, l.call)
	}
	return it, h
}

// written notes that a chunk of a block is written, or never will be.
func (q *queue) written(it *item) {
	q.mu.Lock()
	it.left--
	over := it.left == 0
	q.mu.Unlock()
	if over && it.m != nil {
		it.m.close()
	}
}

// drop forgets what a call has queued; true if nothing of it had been taken. The memory
// of its blocks is the caller's to close.
func (q *queue) drop(call uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[call]
	if l == nil {
		return false
	}
	delete(q.lanes, call)
	for _, it := range l.items {
		q.releaseLocked(it)
	}
	for i, other := range q.turns {
		if other == l {
			q.turns = append(q.turns[:i], q.turns[i+1:]...)
			break
		}
	}
	return l.items[0].h.Offset == 0
}

// weight is what an item counts of queueBytesMax.
func (it *item) weight() int {
	if it.m != nil {
		return 0
	}
	return len(it.body) + itemBytes
}

const (
	itemBytes     = 256     // roughly what an item takes by itself
	queueBytesMax = 8 << 20 // more messages than that may not wait, or no request is read
)

func (q *queue) releaseLocked(it *item) {
	if q.bytes -= it.weight(); q.room != nil && q.bytes <= queueBytesMax {
		close(q.room)
		q.room = nil
	}
}

// full is a channel that is closed when there is room for messages again; nil: there is.
func (q *queue) full() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes <= queueBytesMax || q.closed {
		return nil
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	return q.room
}

// close ends the queue: nothing is taken any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.lanes, q.turns = nil, nil
	q.filled.Broadcast()
}
