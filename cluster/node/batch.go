package node

import (
	"slices"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// batch is the blocks of one load or store, of a client or a peer. They go to the
// engines in chunks, each when its turn has come on its drive.
type batch struct {
	node     *Node
	space    *space
	class    class
	keys     []engine.Key
	pieces   [][][]byte      // of each key; nil where its place is bad
	statuses []byte          // a wire.Status each; every chunk writes its own
	errs     []error         // causes of statuses; nil: nobody wants them
	reasons  []byte          // a wire.Reason each, of a put; nil: none
	charged  []bool          // taken from the write budget; nil: nothing
	over     <-chan struct{} // closed when nobody waits for it any longer
	// freed hears once of every late item whose memory is not in use any more, note of what
	// went wrong with a block. Both come on any goroutine, freed even on one that ends
	// transfers: nothing may wait there.
	freed func(i int)
	note  func(what string, cause error)
}

// chunk is what goes to one engine in one call.
type chunk struct {
	part   *part
	stream *stream // of the request on this drive
	items  []int   // indices into the request
	next   int     // index of what comes behind them on their drive; 0: nothing
	first  bool    // nothing of the request comes before them on their drive
	bytes  int64
}

// chunks cuts the keys that have memory and no status yet, store by store.
func (b *batch) chunks() []chunk {
	homes := b.space.split(b.keys)
	for h, home := range homes {
		homes[h] = slices.DeleteFunc(home, func(i int) bool { return b.statuses[i] != 0 || b.pieces[i] == nil })
	}
	return b.cut(homes, b.space.parts[0].drive.windows.chunk)
}

// cut makes chunks of at most so many bytes, or one block, of the items on each store.
func (b *batch) cut(homes [][]int, mostBytes int64) []chunk {
	most := max(1, int(mostBytes)/b.space.blockBytes)
	var cut []chunk
	for h, items := range homes {
		s, first := &stream{}, true
		for len(items) > 0 {
			n := min(most, len(items))
			c := chunk{part: &b.space.parts[h], stream: s, items: items[:n], first: first, bytes: int64(n) * int64(b.space.blockBytes)}
			first = false
			if items = items[n:]; len(items) > 0 {
				c.next = items[0]
			}
			cut = append(cut, c)
		}
	}
	return cut
}

// inTurn calls f, which gives every item of a chunk its status, when the chunk's turn has
// come; if it does not come the items are late. good is the status of what f has moved.
func (b *batch) inTurn(c *chunk, good wire.Status, f func()) {
	turn, ok := c.part.drive.enter(c.part.flow, c.stream, b.class, c.bytes, b.over)
	if !ok {
		b.tooLate(c.items)
		return
	}
	b.during(turn, c, good, f)
}

// during calls f in a chunk's turn, and ends it.
func (b *batch) during(turn turn, c *chunk, good wire.Status, f func()) {
	f()
	c.part.drive.leave(turn, b.space.blockBytes, b.moved(c.items, good))
}

// answer takes in what an engine says of item i.
func (b *batch) answer(i int, s engine.Status, cause error, what string) {
	b.statuses[i] = wireStatus(s)
	if cause == nil {
		return
	}
	if b.errs != nil {
		b.errs[i] = cause
	}
	b.note(what, cause)
}

// set gives a status to every item of a chunk.
func (b *batch) set(items []int, s wire.Status) {
	for _, i := range items {
		b.statuses[i] = byte(s)
	}
}

// moved is how many bytes of a chunk have this status.
func (b *batch) moved(items []int, s wire.Status) (bytes int64) {
	for _, i := range items {
		if wire.Status(b.statuses[i]) == s {
			bytes += int64(b.space.blockBytes)
		}
	}
	return bytes
}

// setRest gives a status to the items that have none.
func (b *batch) setRest(s wire.Status) {
	for i := range b.statuses {
		if b.statuses[i] == 0 {
			b.statuses[i] = byte(s)
		}
	}
}

// tooLate answers a chunk whose turn has not come.
func (b *batch) tooLate(items []int) {
	b.set(items, wire.Late)
	for _, i := range items {
		b.freed(i)
	}
}

// wireStatuses translate the engine's.
var wireStatuses = [...]wire.Status{engine.Unanswered: wire.Miss, engine.Hit: wire.Hit, engine.Miss: wire.Miss, engine.Late: wire.Late,
	engine.Busy: wire.Busy, engine.Stored: wire.Stored, engine.Present: wire.Present, engine.Dropped: wire.Dropped}

func wireStatus(s engine.Status) byte { return byte(wireStatuses[s]) }

// engineStatus translates back.
func engineStatus(s byte) engine.Status {
	for e := engine.Hit; int(e) < len(wireStatuses); e++ {
		if byte(wireStatuses[e]) == s {
			return e
		}
	}
	return engine.Unanswered
}
