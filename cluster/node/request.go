package node

import (
	"errors"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// request is one request in flight: from its dispatch until it is answered and
// all its late items are released.
type request struct {
	c      *conn
	number uint64
	kind   wire.Type
	body   []byte
	came   time.Time
	over   chan struct{} // closed when nobody waits for the answer any longer
	once   sync.Once     // of over
	done   chan struct{} // closed at its end
	last   bool          // its last message is on its way; guarded by c.mu
}

// giveUp ends the wait for the answer: what is unanswered is LATE.
func (q *request) giveUp() { q.once.Do(func() { close(q.over) }) }

// bodyBytesMax bounds the requests in flight of all connections together; decoded
// they take up to twice as much again.
const bodyBytesMax = 256 << 20

// begin takes a request in, unless the connection or the node has too many, or ends. With
// ok false the caller answers it, or the connection is over.
func (c *conn) begin(h wire.Header, body []byte) (q *request, ok bool) {
	q = &request{c: c, number: h.Request, kind: h.Type, body: body, came: time.Now(), over: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.open >= c.options.RequestsMax {
		return nil, false
	}
	if n := int64(len(body)); n > 0 && c.node.bodyBytes.Add(n) > bodyBytesMax {
		c.node.bodyBytes.Add(-n)
		return nil, false
	}
	c.requests[q.number] = q
	c.open++
	c.running.Add(1)
	return q, true
}

// known reports whether a request of this number is in flight.
func (c *conn) known(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.requests[number]
	return q != nil && !q.last
}

// leave is called before the last message of a request is queued: a client that has
// it may use the number and the room again at once, and finds the request counted
// no more.
func (q *request) leave() {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	q.leaveLocked()
}

func (q *request) leaveLocked() {
	if !q.last {
		q.last = true
		q.c.open--
	}
}

// finish ends a request: it has its answer and every release.
func (q *request) finish() {
	q.c.node.bodyBytes.Add(-int64(len(q.body)))
	giveBody(q.body)
	c := q.c
	c.mu.Lock()
	q.leaveLocked()
	if c.requests[q.number] == q { // else another has the number by now
		delete(c.requests, q.number)
	}
	c.mu.Unlock()
	close(q.done)
	c.running.Done()
}

// patience lets the request be given up at its deadline. (Cancel and the end of
// the connection may do so before.)
func (q *request) patience(deadlineUS uint32) (deadline time.Time, stop func()) {
	wait := q.c.options.Patience
	if deadlineUS > 0 {
		wait = min(wait, time.Duration(deadlineUS)*time.Microsecond)
	}
	timer := time.AfterFunc(time.Until(q.came.Add(wait)), q.giveUp)
	return q.came.Add(wait), func() { timer.Stop() }
}

// answer queues an answer that is not the last message; leave comes before one that is.
func (q *request) answer(m wire.Message) {
	q.c.node.times.request(q.kind, time.Since(q.came))
	q.c.answer(q.number, q.kind, m)
}

// refuse answers with the error that err stands for; nothing comes after it.
func (q *request) refuse(err error) {
	q.leave()
	q.c.node.times.request(q.kind, time.Since(q.came))
	code, text, remedy := wire.CodeInternal, err.Error(), ""
	var named *wire.ErrorAnswer
	switch {
	case errors.As(err, &named):
		code, text, remedy = named.Code, named.Text, named.Remedy
	case errors.Is(err, errDenied):
		code = wire.CodeDenied
	case errors.Is(err, engine.ErrConfig), errors.Is(err, engine.ErrKey), errors.Is(err, engine.ErrSize):
		code = wire.CodeArgument
	case errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrGone):
		code = wire.CodeClosing
	case errors.Is(err, engine.ErrNoSpace):
		code = wire.CodeLimit
	}
	q.c.fail(q.number, code, text, remedy)
}

func unknown(text string) error { return &wire.ErrorAnswer{Code: wire.CodeUnknown, Text: text} }

func limit(text, remedy string) error {
	return &wire.ErrorAnswer{Code: wire.CodeLimit, Text: text, Remedy: remedy}
}

func argument(text string) error { return &wire.ErrorAnswer{Code: wire.CodeArgument, Text: text} }
