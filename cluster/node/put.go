package node

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/prefetch"
)

// put serves a Put.
func (q *request) put(m *wire.Put) {
	t := q.startTransfer(m.Flags, wire.PutDurable|wire.PutDropIfBusy|wire.PutPartial|wire.PutSpan, m.Namespace, m.Group, m.Keys, m.Places, stores)
	if t == nil {
		return
	}
	deadline, stop := q.patience(m.DeadlineUS)
	defer stop()
	o := engine.PutOptions{Deadline: deadline, Done: q.over, Shared: true, DropIfBusy: m.Flags&wire.PutDropIfBusy != 0}
	if m.Flags&wire.PutDurable != 0 {
		o.Durability = engine.Durable
	}
	t.gate(m.Flags&wire.PutPartial != 0)
	all := t.chunks()
	chunks := t.admit(all)
	// Tail first, as within a call of the engine: a leaf ages before its parent.
	for i := len(chunks) - 1; i >= 0; i-- {
		t.store(&chunks[i], m, o)
		chunks[i].part.drive.discharge(chunks[i].bytes)
	}
	t.setRest(wire.Dropped)
	for i := range all {
		t.refund(&all[i])
	}
	t.q.c.node.predicting.see(prefetch.Stored, t.space, q.c.number, t.keys, int(m.Depth))
	t.reply(func(s wire.Status) bool { return s == wire.Stored || s == wire.Present })
}

// admit drops at once the chunks for which a drive's queue has no room: the client
// gets its memory back instead of a place in a long queue. What is kept is the
// beginning of the chain, which is of use without the rest.
func (t *transfer) admit(chunks []chunk) []chunk {
	kept := chunks[:0:0]
	full := map[*drive]bool{}
	for _, c := range chunks {
		if d := c.part.drive; full[d] || !d.admit(c.bytes) {
			full[d] = true
			for _, i := range c.items {
				t.refuse(i, admit.QueueFull)
			}
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// store writes a chunk when its turn has come.
func (t *transfer) store(c *chunk, m *wire.Put, o engine.PutOptions) {
	d := c.part.drive
	turn, ok := d.enter(c.part.flow, c.stream, stores, c.bytes, t.q.over)
	if !ok {
		t.tooLate(c.items)
		return
	}
	defer func() {
		stored := t.moved(c.items, wire.Stored)
		d.leave(turn, t.space.blockBytes, stored)
		d.wear.Wrote(time.Now(), stored+t.moved(c.items, wire.Late))
	}()
	items := make([]engine.PutItem, len(c.items))
	for j, i := range c.items {
		items[j] = engine.PutItem{Key: t.keys[i], Src: t.pieces[i], Depth: m.Depth + uint32(i), Importance: m.Importance}
		if m.Flags&wire.PutSpan != 0 {
			items[j].Span = 1
		}
	}
	if len(t.keys) > 1 {
		o.EndDepth = m.Depth + uint32(len(t.keys)-1)
	}
	if c.next > 0 {
		o.Before = t.keys[c.next]
		o.SpanOn = m.Flags&wire.PutSpan != 0
	}
	if c.first && len(m.After) > 0 { // of use on the drive where it is
		o.After = engine.Key{Group: m.Group, Bytes: m.After}
	}
	o.Partial = m.Flags&wire.PutPartial != 0 && c.items[len(c.items)-1] == len(t.keys)-1
	o.Released = func(j int) { t.released(c.items[j]) }
	if err := c.part.ns.Put(items, o); err != nil {
		t.set(c.items, wire.Dropped) // the store is closed
		return
	}
	for j, i := range c.items {
		if t.statuses[i] = wireStatus(items[j].Status); items[j].Status == engine.Busy { // it could not be proven
			t.statuses[i] = byte(wire.Dropped)
		}
		if items[j].Err != nil {
			t.q.c.note("a block was not stored", items[j].Err)
		}
	}
}
