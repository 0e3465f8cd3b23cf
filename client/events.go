package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// EventKind says what happened.
type EventKind = uint8

// Kinds of events.
const (
	EventStored  = wire.EventStored  // blocks are here now
	EventRemoved = wire.EventRemoved // evicted, deleted, or found damaged
	EventCleared = wire.EventCleared // the namespace was dropped
)

// Event is something that happened to blocks of a namespace.
type Event struct {
	Sequence uint64
	Kind     EventKind
	Group    uint32
	Keys     [][]byte
}

// eventsWaiting bounds the events that a subscriber has not taken.
const eventsWaiting = 1024

// Subscription delivers events until Cancel, or until it breaks: the connection is
// lost, the receiver is too slow, or the daemon does not keep what is asked for any
// more. Then a mirror of the pool has to start over.
type Subscription struct {
	Oldest, Next uint64 // what the daemon keeps, and the next sequence, at the beginning

	c     <-chan Event
	link  *link
	call  *call
	mu    sync.Mutex
	cause error
}

// ErrEventsLost says that events in between are lost.
var ErrEventsLost = errors.New("events are lost")

// Subscribe begins with the event of sequence from; 0 is the next one.
func (ns *Namespace) Subscribe(ctx context.Context, from uint64) (*Subscription, error) {
	l, number, ok := ns.space()
	if !ok {
		return nil, ns.c.notConnected()
	}
	c := make(chan Event, eventsWaiting)
	s := &Subscription{c: c, link: l}
	s.call = l.startWith(wire.TypeEvents, &wire.Subscribe{Namespace: number, From: from}, nil, &eventSink{c: c, s: s})
	select {
	case <-s.call.answered:
	case <-ctx.Done():
		s.Cancel()
		return nil, ctx.Err()
	}
	if s.call.err != nil {
		return nil, s.call.err
	}
	m, err := wire.ParseSubscribed(s.call.body)
	s.Oldest, s.Next = m.Oldest, m.Next
	return s, err
}

// Events is closed at the end.
func (s *Subscription) Events() <-chan Event { return s.c }

// Err says why Events was closed; nil after Cancel.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Cancel ends the subscription.
func (s *Subscription) Cancel() {
	s.link.forget(s.call, nil)
}

// eventSink is where a call's events go; the link's lock guards it.
type eventSink struct {
	c     chan Event
	s     *Subscription
	ended bool
}

func (e *eventSink) end(cause error) {
	if e.ended {
		return
	}
	e.ended = true
	e.s.mu.Lock()
	e.s.cause = cause
	e.s.mu.Unlock()
	close(e.c)
}

// takeEventLocked hands an event on. A receiver that is too slow loses its
// subscription: nobody waits for it.
func (l *link) takeEventLocked(c *call, body []byte) error {
	m, err := wire.ParseEvent(body)
	if err != nil {
		return err
	}
	switch e := c.events; {
	case e == nil:
		return fmt.Errorf("%w: an event to no subscription", wire.ErrMalformed)
	case e.ended:
	case m.Kind == wire.EventLost:
		e.end(ErrEventsLost)
	default:
		event := Event{Sequence: m.Sequence, Kind: m.Kind, Group: m.Group}
		for _, k := range m.Keys.All() {
			event.Keys = append(event.Keys, k)
		}
		select {
		case e.c <- event:
		default:
			e.end(ErrEventsLost)
			go l.forget(c, ErrEventsLost) // the daemon need not send what nobody takes
		}
	}
	return nil
}

// forget cancels a subscription. Its number stays taken until the daemon says that
// no event is under way any more.
func (l *link) forget(c *call, cause error) {
	l.mu.Lock()
	if c.events != nil {
		c.events.end(cause)
	}
	l.mu.Unlock()
	if !l.waits(c) {
		return
	}
	cancel := l.start(wire.TypeCancel, wire.Wide(c.number), nil)
	go func() { // no event follows the answer; the end of the link answers too
		<-cancel.answered
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waiting != nil && cancel.err == nil {
			delete(l.waiting, c.number)
		}
	}()
}
