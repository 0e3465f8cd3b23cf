// Package journal keeps the latest events of a node's part in a pool: who came and went,
// what stopped working and works again, what an operator had done. It is what
// `spillway pool events` shows, and each event is a line in the daemon's log, too.
package journal

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Kind is what an event is about. Kinds are words that people and scripts read: they
// are only ever added.
type Kind string

// Kinds.
const (
	Joined   Kind = "joined"   // a node is a member now; or this one
	Left     Kind = "left"     // a node has left in order
	Failed   Kind = "failed"   // a node does not answer any more, and is no member
	Suspect  Kind = "suspect"  // a node does not answer the probes of the membership at the moment
	State    Kind = "state"    // a node calls itself draining, active, ...
	Leg      Kind = "leg"      // one way of reaching a node does not work: UDP, TCP or the data port
	Broken   Kind = "broken"   // a peer's circuit breaker has opened: it is asked for nothing
	Mended   Kind = "mended"   // and has closed again
	Foreign  Kind = "foreign"  // somebody of another pool, without the key or of another version wants in
	Conflict Kind = "conflict" // two nodes have one name or one ID
	Merged   Kind = "merged"   // what was erased elsewhere is known here
	Erased   Kind = "erased"   // a namespace was dropped, or blocks were given up because nobody knows whether they were deleted
	Drain    Kind = "drain"    // progress and end of a drain, and its undoing
	Repair   Kind = "repair"   // lost copies are made anew
	Forgot   Kind = "forgot"   // an operator had a node forgotten
	Keys     Kind = "keys"     // keys or certificates have changed
	Trouble  Kind = "trouble"  // anything else that somebody should look at
)

// grave are kinds whose line in the log is a warning.
var grave = map[Kind]bool{Failed: true, Leg: true, Broken: true, Foreign: true, Conflict: true, Trouble: true}

// knocks are kinds that others cause as often as they like.
var knocks = map[Kind]bool{Foreign: true, Conflict: true, Trouble: true}

// Event is one event, as this node saw it.
type Event struct {
	Number uint64    // from 1, rising by 1
	Time   time.Time // by this node's clock, when it happened first
	Kind   Kind
	Node   string // name of the node that it is about; empty: this one, or none
	Text   string // a sentence without its full stop
	Times  int    // how often: see Journal.Add
}

// Bounds of a Journal.
const (
	EventsMax = 1024 // the latest that are kept
	sameMax   = 16   // among so many latest ones an event is looked for again
)

// Journal keeps the latest events. All methods may be called from many goroutines, and
// those of a nil Journal do nothing.
type Journal struct {
	log     *slog.Logger
	mu      sync.Mutex
	ring    [EventsMax]Event // event n is at n % EventsMax
	newest  uint64           // number of the newest; 0: none
	changed chan struct{}    // closed at the next event
}

// New makes a journal that writes each event to a log, too; logger may be nil.
func New(logger *slog.Logger) *Journal {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Journal{log: logger, changed: make(chan struct{})}
}

// Add takes an event in. One that was among the latest already is only counted, while
// nothing else has happened to its node since: a node that fails, comes back and fails again
// has failed twice. Of Foreign, Conflict and Trouble it is counted whatever happened since: a
// foreign node that knocks every second fills neither the journal nor the log.
func (j *Journal) Add(kind Kind, node, format string, args ...any) {
	if j == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	if !j.add(kind, node, text) {
		return
	}
	level := slog.LevelInfo
	if grave[kind] {
		level = slog.LevelWarn
	}
	j.log.Log(context.Background(), level, "pool: "+text, "event", string(kind), "node", node)
}

// add reports whether the event is a new one.
func (j *Journal) add(kind Kind, node, text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for n := j.newest; n > 0 && n+sameMax > j.newest; n-- {
		e := &j.ring[n%EventsMax]
		if e.Node != node {
			continue
		}
		if e.Kind == kind && e.Text == text {
			e.Times++
			return false
		}
		if !knocks[kind] && !knocks[e.Kind] {
			break
		}
	}
	j.newest++
	j.ring[j.newest%EventsMax] = Event{Number: j.newest, Time: time.Now(), Kind: kind, Node: node, Text: text, Times: 1}
	close(j.changed)
	j.changed = make(chan struct{})
	return true
}

// After is the events behind this number, at most so many, the oldest first. missed is
// how many behind it are kept no more.
func (j *Journal) After(number uint64, most int) (events []Event, missed uint64) {
	if j == nil {
		return nil, 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := uint64(1)
	if j.newest > EventsMax {
		oldest = j.newest - EventsMax + 1
	}
	from := number + 1
	if from < oldest {
		missed, from = oldest-from, oldest
	}
	for n := from; n <= j.newest && len(events) < most; n++ {
		events = append(events, j.ring[n%EventsMax])
	}
	return events, missed
}

// Newest is the number of the newest event; 0: there was none.
func (j *Journal) Newest() uint64 {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.newest
}

// Changed is closed at the next event.
func (j *Journal) Changed() <-chan struct{} {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}
