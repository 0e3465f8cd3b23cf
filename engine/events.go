package engine

import (
	"bytes"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/table"
)

// EventKind says what happened to a block.
type EventKind uint8

// Kinds of events.
const (
	EventStored  EventKind = 1 // a put was published
	EventRemoved EventKind = 2 // evicted, deleted, or found damaged
	EventCleared EventKind = 3 // the namespace was dropped; Key is empty
)

// Event is something that happened to a block. Events come in the order of the log,
// some moments after the fact. Whoever applies all of them to a set of keys ends with
// the keys that are here; one may say again what was said before. A block that a
// rebuild could not name comes without key bytes.
type Event struct {
	Kind      EventKind
	Namespace *Namespace
	Key       Key // its bytes are the receiver's
}

// Watch lets f receive what happens from now on, a batch at a time, on a goroutine
// of the store: f must be quick and must not call the store. There is one watcher at
// a time; nil ends it. Watching costs an index look-up for each block that goes.
func (s *Store) Watch(f func([]Event)) {
	if f == nil {
		s.watcher.Store(nil)
		return
	}
	s.watcher.Store(&f)
}

// eventBatch gathers the events of one batch of the applier.
type eventBatch struct {
	watcher    func([]Event)
	namespaces []*Namespace
	b          *pebble.Batch // indexed: it shows what the records so far have changed
	events     []Event
}

// newBatch begins a batch of index changes, and its events: nil if nobody watches.
func (s *Store) newBatch() (*pebble.Batch, *eventBatch) {
	f := s.watcher.Load()
	if f == nil {
		return s.index.db.NewBatch(), nil
	}
	b := s.index.db.NewIndexedBatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	return b, &eventBatch{watcher: *f, namespaces: s.namespaces, b: b}
}

// add takes in one log record, before it is applied. What it cannot decode, the
// applier reports.
func (e *eventBatch) add(payload []byte) {
	if e == nil || len(payload) == 0 {
		return
	}
	switch payload[0] {
	case recordPut:
		if r, err := decodePut(payload); err == nil {
			e.tell(EventStored, r.namespace, Key{r.group, bytes.Clone(r.key)})
		}
	case recordFree:
		_ = decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			e.removed(ns, incarnation, it.id, it.position, it.position)
		})
	case recordDelete:
		seen := map[table.ID]bool{} // a caller may name a key twice
		_ = decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			if !seen[it.id] {
				e.removed(ns, incarnation, it.id, 0, it.position)
			}
			seen[it.id] = true
		})
	case recordDrop:
		if ns, _, err := decodeDrop(payload); err == nil {
			e.tell(EventCleared, ns, Key{})
		}
	}
}

// removed tells that the puts of an ID at positions first to last are gone, if there
// were any and no later one is there: the log may have that before.
func (e *eventBatch) removed(ns, incarnation uint32, id table.ID, first, last uint64) {
	it, err := e.b.NewIter(&pebble.IterOptions{LowerBound: appendIndexKey(nil, ns, incarnation, id, first),
		UpperBound: appendIndexKey(nil, ns, incarnation, id, math.MaxUint64)})
	if err != nil {
		return // the applier will meet it too
	}
	defer it.Close()
	var value []byte
	for ok := it.First(); ok; ok = it.Next() {
		entry, err := decodeIndexEntry(it.Key(), it.Value())
		if err != nil {
			continue
		}
		if entry.position > last {
			return
		}
		value = append(value[:0], it.Value()...)
	}
	if value != nil {
		e.tellValue(ns, value)
	}
}

// tellValue tells of the removal of an index entry.
func (e *eventBatch) tellValue(ns uint32, value []byte) {
	if entry, err := decodeIndexEntry(appendIndexKey(nil, ns, 0, table.ID{}, 0), value); err == nil {
		e.tell(EventRemoved, ns, Key{entry.group, bytes.Clone(entry.key)})
	}
}

func (e *eventBatch) tell(kind EventKind, ns uint32, key Key) {
	if ns == 0 || int(ns) > len(e.namespaces) {
		return
	}
	e.events = append(e.events, Event{kind, e.namespaces[ns-1], key})
}

// send hands the events over, once their batch is applied.
func (e *eventBatch) send() {
	if e != nil && len(e.events) > 0 {
		e.watcher(e.events)
	}
}
