package client

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// receive takes answers in until the connection ends.
func (l *link) receive() {
	defer close(l.read)
	in := bufio.NewReaderSize(l.socket, 64<<10)
	header := make([]byte, wire.HeaderBytes)
	for {
		if _, err := io.ReadFull(in, header); err != nil {
			l.end(err)
			return
		}
		h, err := wire.ParseHeader(header, wire.FrameBytesMax)
		if err != nil {
			l.end(err)
			return
		}
		body := make([]byte, h.BodyBytes)
		if _, err := io.ReadFull(in, body); err != nil {
			l.end(err)
			return
		}
		if err := l.take(h, body); err != nil {
			l.end(err)
			return
		}
	}
}

// take gives one frame to the call that it is for.
func (l *link) take(h wire.Header, body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.waiting[h.Request]
	if c == nil {
		if h.Type == wire.TypeError && h.Request == 0 {
			return parseError(body)
		}
		return fmt.Errorf("%w: an answer of type %#x to no request", wire.ErrMalformed, h.Type)
	}
	switch {
	case h.Type == wire.TypeEvent:
		return l.takeEventLocked(c, body)
	case h.Type == wire.TypeReleased:
		items, err := wire.ParseReleased(body)
		if err != nil {
			return err
		}
		if len(items) > c.late {
			return fmt.Errorf("%w: more items released than were late", wire.ErrMalformed)
		}
		c.late -= len(items)
	case c.late >= 0:
		return fmt.Errorf("%w: a second answer to a request", wire.ErrMalformed)
	case h.Type == wire.TypeError:
		c.err, c.late = parseError(body), 0
		c.events = nil // a refused subscription is none
		close(c.answered)
	case h.Type == c.kind|wire.Answer:
		c.body, c.late = body, lateIn(c.kind, body)
		close(c.answered)
	default:
		return fmt.Errorf("%w: type %#x answers %#x", wire.ErrMalformed, h.Type, c.kind)
	}
	if c.late == 0 && c.events == nil {
		delete(l.waiting, h.Request)
		close(c.free)
	}
	return nil
}

// lateIn counts the items of an answer whose release is to come.
func lateIn(kind wire.Type, body []byte) (n int) {
	if kind != wire.TypeGet && kind != wire.TypePut {
		return 0
	}
	r, err := wire.ParseResults(body)
	if err != nil {
		return 0 // whoever waits finds out
	}
	for _, s := range r.Statuses {
		if wire.Status(s) == wire.Late {
			n++
		}
	}
	return n
}

func parseError(body []byte) error {
	m, err := wire.ParseError(body)
	if err != nil {
		return err
	}
	return &m
}
