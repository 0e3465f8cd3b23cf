package node

import (
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

const (
	// eventsMax and eventKeyBytesMax bound what is kept for subscribers.
	eventsMax        = 1 << 16
	eventKeyBytesMax = 16 << 20
	// eventKeysMax bounds the keys of one event.
	eventKeysMax = 1024
)

// event is something that happened to blocks of one space.
type event struct {
	kind  uint8
	space *space
	group uint32
	keys  [][]byte
	bytes int // of keys
}

// eventLog keeps the newest events, numbered from 1. Nothing is recorded, and
// nothing costs anything, before somebody subscribes for the first time.
type eventLog struct {
	mu     sync.Mutex
	began  bool
	events []event
	first  uint64        // sequence of events[0]
	bytes  int           // of all keys
	news   chan struct{} // closed and replaced when there are more
	spaces map[*engine.Namespace]*space
}

// begin starts the recording.
func (l *eventLog) begin(stores []*engine.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began {
		return
	}
	for _, s := range stores {
		s.Watch(l.record)
	}
	l.began = true
}

// record takes in what a store tells, joining neighbours of one kind.
func (l *eventLog) record(told []engine.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for from := 0; from < len(told); {
		e := event{kind: uint8(told[from].Kind), space: l.spaces[told[from].Namespace], group: told[from].Key.Group}
		to := from
		for ; to < len(told) && to-from < eventKeysMax && told[to].Kind == told[from].Kind &&
			told[to].Namespace == told[from].Namespace && told[to].Key.Group == e.group; to++ {
			if k := told[to].Key.Bytes; len(k) > 0 {
				e.keys = append(e.keys, k)
				e.bytes += len(k)
			}
		}
		if from = to; e.space == nil || len(e.keys) == 0 && e.kind != wire.EventCleared {
			continue // of a namespace that no client has opened, or blocks without names
		}
		l.events = append(l.events, e)
		l.bytes += e.bytes
	}
	for len(l.events) > eventsMax || l.bytes > eventKeyBytesMax {
		l.bytes -= l.events[0].bytes
		l.events[0] = event{}
		l.events = l.events[1:]
		l.first++
	}
	close(l.news)
	l.news = make(chan struct{})
}

// since are the events from a sequence on, at most n, and, if there are none, what
// to wait for. lost says that some of them are not kept any more.
func (l *eventLog) since(from uint64, n int) (some []event, news <-chan struct{}, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.first {
		return nil, nil, true
	}
	some = l.events[min(from-l.first, uint64(len(l.events))):]
	return slices.Clone(some[:min(n, len(some))]), l.news, false // record reuses the memory
}

func (l *eventLog) span() wire.Subscribed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wire.Subscribed{Oldest: l.first, Next: l.first + uint64(len(l.events))}
}

// subscribe serves an Events request: it goes on until Cancel, or the end of the
// connection or of the node.
func (q *request) subscribe(m *wire.Subscribe) {
	defer q.finish()
	c := q.c
	var only *space
	if m.Namespace != 0 {
		var err error
		if only, err = c.space(m.Namespace); err != nil {
			q.refuse(err)
			return
		}
	}
	log := &c.node.events
	log.begin(c.node.stores)
	span := log.span()
	next := m.From
	if next == 0 || next > span.Next {
		next = span.Next
	}
	q.answer(&span)
	for {
		some, news, lost := log.since(next, 64)
		if lost {
			q.leave()
			q.tellEvent(&wire.Event{Sequence: next, Kind: wire.EventLost, Namespace: m.Namespace})
			return
		}
		for i := range some {
			c.forward(q, only, next+uint64(i), &some[i])
		}
		next += uint64(len(some))
		if len(some) > 0 {
			news = passed // look again at once
		}
		select {
		case <-news:
		case <-q.over:
			return
		case <-c.node.ending:
			return
		}
		select { // a busy store must not keep us from the end
		case <-q.over:
			return
		case <-c.node.ending:
			return
		default:
		}
	}
}

var passed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// forward sends an event if the connection has its namespace open, and wants it.
func (c *conn) forward(q *request, only *space, sequence uint64, e *event) {
	if only != nil && e.space != only {
		return
	}
	c.mu.Lock()
	number := uint32(0)
	for n, s := range c.spaces {
		if s == e.space {
			number = n
		}
	}
	c.mu.Unlock()
	if number != 0 {
		q.tellEvent(&wire.Event{Sequence: sequence, Kind: e.kind, Namespace: number, Group: e.group, Keys: wire.MakeKeys(e.keys)})
	}
}

func (q *request) tellEvent(m *wire.Event) {
	q.c.out.wait()
	q.c.out.add(func(b []byte) []byte { return wire.AppendFrame(b, wire.TypeEvent, q.number, m) }, nil)
}
