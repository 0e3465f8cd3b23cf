package node

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// putting says what is to be stored beside the bytes of a batch.
type putting struct {
	// options are those of a single put of the whole batch.
	options engine.PutOptions
	// place is where block i stands in its chain, and what it is worth.
	place func(i int) (depth, span uint32, importance uint8)
	// moved says that admission has judged the blocks before: the write budget alone counts.
	moved bool
	// away says that they may go to other nodes, whose write budgets count then.
	away bool
}

// storeAll stores the blocks that are admitted, and gives every block a status.
func (b *batch) storeAll(w *putting) {
	b.gate(w)
	all := b.chunks()
	chunks := b.admit(all)
	// Tail first, as within a call of the engine: a leaf ages before its parent.
	for i := len(chunks) - 1; i >= 0; i-- {
		b.store(&chunks[i], w)
		chunks[i].part.drive.discharge(chunks[i].bytes)
	}
	b.setRest(wire.Dropped)
	for i := range all {
		b.refund(&all[i])
	}
}

// admit drops at once the chunks for which a drive's queue has no room: the client
// gets its memory back instead of a place in a long queue. What is kept is the
// beginning of the chain, which is of use without the rest.
func (b *batch) admit(chunks []chunk) []chunk {
	kept := chunks[:0:0]
	full := map[*drive]bool{}
	for _, c := range chunks {
		if d := c.part.drive; full[d] || !d.admit(c.bytes) {
			full[d] = true
			for _, i := range c.items {
				b.refuse(i, admit.QueueFull)
			}
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// store writes a chunk when its turn has come.
func (b *batch) store(c *chunk, w *putting) {
	b.inTurn(c, wire.Stored, func() {
		items := make([]engine.PutItem, len(c.items))
		for j, i := range c.items {
			items[j] = engine.PutItem{Key: b.keys[i], Src: b.pieces[i]}
			items[j].Depth, items[j].Span, items[j].Importance = w.place(i)
		}
		o := w.of(b, c)
		o.Released = func(j int) { b.freed(c.items[j]) }
		if err := c.part.ns.Put(items, o); err != nil {
			for _, i := range c.items { // the store is closed
				b.answer(i, engine.Dropped, err, "a block was not stored")
			}
			return
		}
		for j, i := range c.items {
			b.answer(i, items[j].Status, items[j].Err, "a block was not stored")
			if items[j].Status == engine.Busy { // it could not be proven
				b.statuses[i] = byte(wire.Dropped)
			}
		}
		c.part.drive.wear.Wrote(time.Now(), b.moved(c.items, wire.Stored)+b.moved(c.items, wire.Late))
	})
}

// of are the options for one chunk.
func (w *putting) of(b *batch, c *chunk) engine.PutOptions {
	o, last := w.options, c.items[len(c.items)-1]
	o.Partial = o.Partial && last == len(b.keys)-1
	if !c.first { // After is of use on the drive where it is
		o.After = engine.Key{}
	}
	if c.next > 0 {
		o.Before = b.keys[c.next]
		_, span, _ := w.place(last)
		_, behind, _ := w.place(c.next)
		o.SpanOn = span != 0 && span == behind
	}
	return o
}
