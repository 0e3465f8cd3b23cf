package node

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// dispatch starts a request: at once and in order where memory alone answers,
// in a goroutine of its own otherwise. An error ends the connection.
func (c *conn) dispatch(h wire.Header, body []byte) error {
	switch h.Type {
	case wire.TypeMatch, wire.TypeLocate:
		return c.find(h, body)
	case wire.TypeTouch, wire.TypeRelease, wire.TypeCancel, wire.TypePing:
		err := c.atOnce(h, body)
		giveBody(body)
		return err
	}
	if c.known(h.Request) {
		return fmt.Errorf("%w: request %d is in flight already", wire.ErrMalformed, h.Request)
	}
	var file *os.File
	if h.Type == wire.TypeRegisterRegion { // here, in the order of requests
		file = c.in.takeFile()
	}
	work, err := c.plan(h, body, file)
	if err != nil {
		closeFile(file)
		return err
	}
	q, ok := c.begin(h, body)
	if !ok {
		closeFile(file)
		c.node.counters.limited.Add(1)
		c.turnAway(h, body)
		return nil
	}
	go work(q)
	return nil
}

// plan decodes a request that takes time and says how to serve it. file came with
// it, or is nil.
func (c *conn) plan(h wire.Header, body []byte, file *os.File) (work func(*request), err error) {
	switch h.Type {
	case wire.TypeGet:
		m, err := wire.ParseGet(body)
		return func(q *request) { q.get(&m) }, err
	case wire.TypePut:
		m, err := wire.ParsePut(body)
		return func(q *request) { q.put(&m) }, err
	case wire.TypeDelete:
		m, err := wire.ParseKeyList(body)
		return replying(func(q *request) (wire.Message, error) { return c.delete(&m) }), err
	case wire.TypeOpenNamespace:
		m, err := wire.ParseOpenNamespace(body)
		return replying(func(*request) (wire.Message, error) { return c.openNamespace(&m) }), err
	case wire.TypeDropNamespace:
		m, err := wire.ParseNumber(body)
		return replying(func(*request) (wire.Message, error) { return c.dropNamespace(uint32(m)) }), err
	case wire.TypeRegisterRegion:
		m, err := wire.ParseRegisterRegion(body)
		return replying(func(*request) (wire.Message, error) { return c.registerRegion(&m, file) }), err
	case wire.TypeCreateRegion:
		m, err := wire.ParseCreateRegion(body)
		return func(q *request) { q.createRegion(&m) }, err
	case wire.TypeDropRegion:
		m, err := wire.ParseNumber(body)
		return replying(func(*request) (wire.Message, error) { return nil, c.dropRegion(uint32(m)) }), err
	case wire.TypeDrain:
		before := c.inFlight()
		return replying(func(q *request) (wire.Message, error) { return nil, q.await(before) }), nil
	case wire.TypeStats:
		m, err := wire.ParseNumber(body)
		return replying(func(*request) (wire.Message, error) { return c.stats(uint32(m)) }), err
	case wire.TypeEvents:
		m, err := wire.ParseSubscribe(body)
		return func(q *request) { q.subscribe(&m) }, err
	case wire.TypePrefetch:
		m, err := wire.ParseKeyList(body)
		return replying(func(*request) (wire.Message, error) { return c.prefetch(&m) }), err
	case wire.TypeHello:
		return nil, fmt.Errorf("%w: a second Hello", wire.ErrMalformed)
	}
	return nil, fmt.Errorf("%w: unknown type %#x", wire.ErrMalformed, h.Type)
}

// replying makes a handler of a function that returns the answer.
func replying(f func(q *request) (wire.Message, error)) func(*request) {
	return func(q *request) {
		if m, err := f(q); err != nil {
			q.refuse(err)
		} else {
			q.leave()
			q.answer(m)
		}
		q.finish()
	}
}

// turnAway answers a request beyond the limit, or at the end.
func (c *conn) turnAway(h wire.Header, body []byte) {
	c.mu.Lock()
	closing := c.draining
	c.mu.Unlock()
	status := byte(wire.Dropped)
	n := 0
	switch h.Type {
	case wire.TypeGet:
		m, _ := wire.ParseGet(body) // it parsed before
		n, status = m.Keys.Len(), byte(wire.Busy)
		if closing {
			status = byte(wire.Miss)
		}
	case wire.TypePut:
		m, _ := wire.ParsePut(body)
		n = m.Keys.Len()
	}
	giveBody(body)
	if h.Type == wire.TypeGet || h.Type == wire.TypePut {
		statuses := make([]byte, n)
		for i := range statuses {
			statuses[i] = status
		}
		c.answer(h.Request, h.Type, &wire.Results{Statuses: statuses})
		return
	}
	if closing {
		c.fail(h.Request, wire.CodeClosing, errClosing.Error(), "")
		return
	}
	c.fail(h.Request, wire.CodeLimit, fmt.Sprintf("%d requests are in flight, which is the limit", c.options.RequestsMax),
		"wait for answers, or raise limits.requests in the daemon's configuration")
}

// inFlight are the requests that have not ended.
func (c *conn) inFlight() []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*request, 0, len(c.requests))
	for _, q := range c.requests {
		if q.kind != wire.TypeEvents { // answered, and never at its end
			all = append(all, q)
		}
	}
	return all
}

// await waits for the end of others.
func (q *request) await(before []*request) error {
	for _, other := range before {
		select {
		case <-other.done:
		case <-q.over:
			return &wire.ErrorAnswer{Code: wire.CodeClosing, Text: "cancelled"}
		}
	}
	return nil
}

// atOnce serves what memory alone answers.
func (c *conn) atOnce(h wire.Header, body []byte) error {
	q := &request{c: c, number: h.Request, kind: h.Type, came: time.Now(), last: true}
	var m wire.Message
	var err, malformed error
	switch h.Type {
	case wire.TypeTouch:
		var ask wire.KeyList
		if ask, malformed = wire.ParseKeyList(body); malformed == nil {
			m, err = c.touch(&ask)
		}
	case wire.TypeRelease:
		var lease wire.Wide
		if lease, malformed = wire.ParseWide(body); malformed == nil {
			c.release(uint64(lease))
		}
	case wire.TypeCancel:
		var number wire.Wide
		if number, malformed = wire.ParseWide(body); malformed == nil {
			if events := c.cancel(uint64(number)); events != nil {
				go func() { // ends at once, see subscribe
					<-events.done
					q.answer(nil)
				}()
				return nil
			}
		}
	case wire.TypePing:
		m = wire.Raw(body)
	}
	switch {
	case malformed != nil:
		return malformed
	case err != nil:
		q.refuse(err)
	default:
		q.answer(m)
	}
	return nil
}

// cancel gives a request up. It returns a subscription, whose end the answer has to
// wait for.
func (c *conn) cancel(number uint64) (events *request) {
	c.mu.Lock()
	q := c.requests[number]
	c.mu.Unlock()
	if q == nil {
		return nil
	}
	q.giveUp()
	if q.kind == wire.TypeEvents {
		return q
	}
	return nil
}

// stats is the node's state, or that of one namespace, as JSON.
func (c *conn) stats(number uint32) (wire.Message, error) {
	var state any = c.node.Stat()
	if number != 0 {
		s, err := c.space(number)
		if err != nil {
			return nil, err
		}
		state = s.stat()
	}
	b, err := json.Marshal(state)
	return wire.Raw(b), err
}
