package load

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Kind says what an Event tells.
type Kind byte

// The kinds of events. A begin stands before the call, an end after its answer:
// what ended is acknowledged, what only began may have happened or not.
const (
	Ready       Kind = 'R' // the store is open
	PutBegin    Kind = 'p'
	PutDurable  Kind = 'D' // stored, or found present, and on stable media
	PutRelaxed  Kind = 'S' // stored or found present
	PutDropped  Kind = 'N' // refused
	DeleteBegin Kind = 'd'
	DeleteEnd   Kind = 'X'
	DropBegin   Kind = 'z' // of the whole namespace; Version is the newest so far
	DropEnd     Kind = 'Z'
	Failure     Kind = 'E' // the program met what must not be
)

// Event is one line of the load program's report.
type Event struct {
	Kind  Kind
	Space int // number of the namespace, from 0
	Block Block
	Text  string // of a Failure
}

// write puts the event into w by one call, so that lines of many goroutines
// never mix in a pipe, and what was written stays there when the writer dies.
func (e Event) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%c %d %d %d %s\n", e.Kind, e.Space, e.Block.Key, e.Block.Version, strings.ReplaceAll(e.Text, "\n", " "))
	return err
}

// ParseEvent reads one line without its end. A line that was cut short is an
// error.
func ParseEvent(line string) (e Event, err error) {
	parts := strings.SplitN(line, " ", 5)
	if len(parts) != 5 || len(parts[0]) != 1 {
		return e, fmt.Errorf("event %q", line)
	}
	e.Kind, e.Text = Kind(parts[0][0]), parts[4]
	if e.Space, err = strconv.Atoi(parts[1]); err != nil {
		return e, err
	}
	if e.Block.Key, err = strconv.ParseUint(parts[2], 10, 64); err != nil {
		return e, err
	}
	e.Block.Version, err = strconv.ParseUint(parts[3], 10, 64)
	return e, err
}
