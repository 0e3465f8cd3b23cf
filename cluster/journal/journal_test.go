package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBounds: the latest are kept, and who comes late hears how many he missed.
func TestBounds(t *testing.T) {
	j := New(nil)
	const all = EventsMax + 100
	for i := range all {
		j.Add(Joined, fmt.Sprint("n", i), "came")
	}
	events, missed := j.After(0, all)
	if len(events) != EventsMax || missed != 100 || events[0].Number != 101 || events[EventsMax-1].Node != fmt.Sprint("n", all-1) {
		t.Errorf("%d events, %d missed, from %+v", len(events), missed, events[0])
	}
	if events, missed = j.After(all-2, 1); len(events) != 1 || missed != 0 || events[0].Number != all-1 {
		t.Errorf("%+v, %d missed", events, missed)
	}
	if events, missed = j.After(all, 10); len(events) != 0 || missed != 0 || j.Newest() != all {
		t.Errorf("%+v, %d missed, newest %d", events, missed, j.Newest())
	}
	if events, missed = j.After(all+5, 10); len(events) != 0 || missed != 0 {
		t.Errorf("behind the newest: %+v, %d missed", events, missed)
	}
}

// TestSame: what happens again and again is counted, not listed and logged each time.
func TestSame(t *testing.T) {
	var log bytes.Buffer
	j := New(slog.New(slog.NewTextHandler(&log, nil)))
	for range 1000 {
		j.Add(Foreign, "", "pool %q knocks", "blue")
		j.Add(Broken, "b", "three failures")
	}
	events, _ := j.After(0, 10)
	if len(events) != 2 || events[0].Times != 1000 || events[1].Node != "b" {
		t.Errorf("%+v", events)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings", n)
	}
	for i := range sameMax {
		j.Add(Joined, fmt.Sprint(i), "came")
	}
	j.Add(Broken, "b", "three failures")
	if j.Newest() != 2+sameMax+1 {
		t.Errorf("after others it is news again: %d", j.Newest())
	}
}

// TestAgain: what happens to a node again after something else is news again, with its own
// time; who knocks is not, whatever happens between.
func TestAgain(t *testing.T) {
	j := New(nil)
	for range 2 {
		j.Add(Joined, "b", "joined")
		j.Add(State, "b", "is active")
		j.Add(Joined, "c", "joined") // another node is nothing to b
		j.Add(Failed, "b", "does not answer")
		j.Add(Failed, "b", "does not answer")
	}
	for range 100 {
		j.Add(Foreign, "", "blue knocks")
		j.Add(Conflict, "", "two are called b")
		j.Add(Drain, "", "this node stays")
	}
	want := []Event{
		{1, time.Time{}, Joined, "b", "joined", 1}, {2, time.Time{}, State, "b", "is active", 1}, {3, time.Time{}, Joined, "c", "joined", 2},
		{4, time.Time{}, Failed, "b", "does not answer", 2}, {5, time.Time{}, Joined, "b", "joined", 1}, {6, time.Time{}, State, "b", "is active", 1},
		{7, time.Time{}, Failed, "b", "does not answer", 2}, {8, time.Time{}, Foreign, "", "blue knocks", 100},
		{9, time.Time{}, Conflict, "", "two are called b", 100}, {10, time.Time{}, Drain, "", "this node stays", 100},
	}
	events, _ := j.After(0, EventsMax)
	for i := range events {
		events[i].Time = time.Time{}
	}
	if !slices.Equal(events, want) {
		t.Errorf("%+v", events)
	}
}

// TestWaiting: everybody who waits hears of the next event.
func TestWaiting(t *testing.T) {
	j := New(nil)
	var all sync.WaitGroup
	for range 4 {
		changed := j.Changed()
		all.Go(func() { <-changed })
	}
	j.Add(Left, "a", "has left")
	all.Wait()
	var none *Journal
	none.Add(Left, "a", "has left")
	if events, missed := none.After(0, 1); events != nil || missed != 0 || none.Newest() != 0 || none.Changed() != nil {
		t.Error("a nil journal has events")
	}
}
