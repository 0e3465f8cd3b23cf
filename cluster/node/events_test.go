package node

import (
	"fmt"
	"testing"

	"github.com/spillway-kv/spillway/engine"
)

// TestEventLogIsBounded: the oldest events go, and who asks for them is told.
func TestEventLogIsBounded(t *testing.T) {
	ns, s := new(engine.Namespace), &space{}
	l := &eventLog{first: 1, news: make(chan struct{}), spaces: map[*engine.Namespace]*space{ns: s}}
	const n = eventsMax + 500
	for i := range n {
		l.record([]engine.Event{{Kind: engine.EventKind(1 + i%2), Namespace: ns, Key: engine.Key{Bytes: fmt.Append(nil, i)}}})
	}
	span := l.span()
	if span.Next != n+1 || span.Oldest != n+1-eventsMax {
		t.Errorf("%d to %d are kept", span.Oldest, span.Next)
	}
	if _, _, lost := l.since(span.Oldest-1, 10); !lost {
		t.Error("an event that is gone is not lost")
	}
	some, _, lost := l.since(span.Oldest, 10)
	if lost || len(some) != 10 || string(some[0].keys[0]) != fmt.Sprint(span.Oldest-1) {
		t.Errorf("lost %v, %d events", lost, len(some))
	}
	if some, _, lost = l.since(span.Next, 10); lost || len(some) != 0 {
		t.Errorf("lost %v, %d events after the last", lost, len(some))
	}
	big := make([]byte, 1000)
	for range 2 * eventKeyBytesMax / len(big) {
		l.record([]engine.Event{{Kind: 1, Namespace: ns, Key: engine.Key{Bytes: big}}})
	}
	if l.bytes > eventKeyBytesMax {
		t.Errorf("%d bytes of keys are kept", l.bytes)
	}
	before := l.span()
	l.record([]engine.Event{{Kind: 1, Namespace: new(engine.Namespace), Key: engine.Key{Bytes: big}}, {Kind: 1, Namespace: ns}})
	if l.span() != before {
		t.Error("events of an unknown namespace, or without a key, count")
	}
}

// TestEventsAreJoined: neighbours of one kind become one event, up to a bound.
func TestEventsAreJoined(t *testing.T) {
	ns, s := new(engine.Namespace), &space{}
	l := &eventLog{first: 1, news: make(chan struct{}), spaces: map[*engine.Namespace]*space{ns: s}}
	var told []engine.Event
	for i := range 2500 {
		told = append(told, engine.Event{Kind: 1, Namespace: ns, Key: engine.Key{Bytes: fmt.Append(nil, i)}})
	}
	told = append(told, engine.Event{Kind: 2, Namespace: ns, Key: engine.Key{Bytes: []byte("x")}},
		engine.Event{Kind: 2, Namespace: ns, Key: engine.Key{Group: 1, Bytes: []byte("x")}})
	l.record(told)
	some, _, _ := l.since(1, 100)
	var sizes []int
	for _, e := range some {
		sizes = append(sizes, len(e.keys))
	}
	if fmt.Sprint(sizes) != "[1024 1024 452 1 1]" {
		t.Errorf("joined to %v", sizes)
	}
}
