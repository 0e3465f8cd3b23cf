package node

import (
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/tiering/prefetch"
)

// get serves a Get.
func (q *request) get(m *wire.Get) {
	t := q.startTransfer(m.Flags, wire.GetBounce|wire.GetNoTouch|wire.GetPrefix|wire.GetWorth, m.Namespace, m.Group, m.Keys, m.Places, loads)
	if t == nil {
		return
	}
	if m.Flags&wire.GetWorth != 0 {
		m.DeadlineUS = t.space.hurry(len(t.keys), m.DeadlineUS)
	}
	deadline, stop := q.patience(m.DeadlineUS)
	defer stop()
	t.read(m.Flags, deadline)
	t.reply(func(s wire.Status) bool { return s == wire.Hit })
}

// read gives every block a status: from memory, or from the drives.
func (t *transfer) read(flags uint32, deadline time.Time) {
	prefix := flags&wire.GetPrefix != 0
	t.noTouch = flags&wire.GetNoTouch != 0
	away := t.findAway()
	switch {
	case prefix && away == nil:
		t.cutToPrefix()
	case prefix:
		for i := away.index[0]; i < len(t.statuses); i++ {
			t.statuses[i] = byte(wire.Miss) // until it is known what is where
		}
	}
	if planted.Active(planted.WaitForPeers) && t.node.pool != nil {
		if a := t.node.awayOf(t.space, t.keys, make([]bool, len(t.keys)), nil); a != nil {
			a.pool.Find(a.of, a.ids, t.over)
		}
	}
	t.node.predicting.see(prefetch.Read, t.space, t.q.c.number, t.keys, 0)
	near := t.findNear()
	chunks := t.chunks()
	o := engine.GetOptions{Deadline: deadline, Done: t.over, Bounce: flags&wire.GetBounce != 0,
		NoTouch: t.noTouch || len(chunks) > 1 || len(near) > 0 || away != nil}
	var running sync.WaitGroup
	switch {
	case away == nil:
	case prefix:
		running.Go(func() { t.loadBehind(away, o) })
	default:
		running.Go(func() { t.loadAway(away, o) })
	}
	alone := min(1, len(chunks)) // what this goroutine loads
	if len(near) > 0 {
		alone = 0
	}
	for i := alone; i < len(chunks); i++ {
		running.Go(func() { t.load(&chunks[i], o) })
	}
	for i := range alone {
		t.load(&chunks[i], o)
	}
	t.copyNear(near)
	running.Wait()
	t.setRest(wire.Miss)
	if o.NoTouch && !t.noTouch {
		t.touchHits()
	}
}

// cutToPrefix makes misses of what is behind the first key that is not here.
func (t *transfer) cutToPrefix() {
	here, _, _, err := t.space.present(t.keys, engine.MatchOptions{})
	if err != nil {
		return // the engine will say so again
	}
	for i := prefixOf(here); i < len(t.statuses); i++ {
		t.statuses[i] = byte(wire.Miss)
	}
}

// load reads a chunk when its turn has come.
func (t *transfer) load(c *chunk, o engine.GetOptions) {
	t.inTurn(c, wire.Hit, func() { t.loadNow(c, o) })
}

func (t *transfer) loadNow(c *chunk, o engine.GetOptions) {
	items := make([]engine.GetItem, len(c.items))
	for j, i := range c.items {
		items[j] = engine.GetItem{Key: t.keys[i], Dst: t.pieces[i]}
	}
	through := t.through(c, items)
	o.Released = func(j int) {
		if !through.letGo(j) {
			t.released(c.items[j])
		}
	}
	if err := c.part.ns.Get(items, o); err != nil {
		t.set(c.items, wire.Miss) // the store is closed
		through.dropAll()
		return
	}
	through.finish(items)
	hits := 0
	for j, i := range c.items {
		t.answer(i, items[j].Status, items[j].Err, "a block was not read")
		if items[j].Status == engine.Hit {
			hits++
		}
	}
	t.node.times.read(time.Now(), time.Since(t.q.came), hits)
}

// touchHits makes the blocks that were read young, in chain order, as one Get
// of the engine does by itself.
func (t *transfer) touchHits() {
	hits := make([]engine.Key, 0, len(t.keys))
	for i, s := range t.statuses {
		if wire.Status(s) == wire.Hit {
			hits = append(hits, t.keys[i])
		}
	}
	_ = t.space.each(hits, func(p *part, keys []engine.Key, _ []int) error {
		_, err := p.ns.Touch(keys) // on a closed store the age does not matter
		return err
	})
}
