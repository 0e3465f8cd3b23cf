package node

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
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
	t.put(t.putting(m, deadline))
	t.node.predicting.see(prefetch.Stored, t.space, q.c.number, t.keys, int(m.Depth))
	t.reply(func(s wire.Status) bool { return s == wire.Stored || s == wire.Present })
}

// putting is what a client says of its blocks.
func (t *transfer) putting(m *wire.Put, deadline time.Time) *putting {
	o := engine.PutOptions{Deadline: deadline, Done: t.over, Shared: true, DropIfBusy: m.Flags&wire.PutDropIfBusy != 0,
		Partial: m.Flags&wire.PutPartial != 0}
	if m.Flags&wire.PutDurable != 0 {
		o.Durability = engine.Durable
	}
	if len(t.keys) > 1 {
		o.EndDepth = m.Depth + uint32(len(t.keys)-1)
	}
	if len(m.After) > 0 {
		o.After = engine.Key{Group: m.Group, Bytes: m.After}
	}
	span := uint32(0)
	if m.Flags&wire.PutSpan != 0 {
		span = 1
	}
	return &putting{options: o, place: func(i int) (uint32, uint32, uint8) { return m.Depth + uint32(i), span, m.Importance }}
}
