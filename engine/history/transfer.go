package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// put stores the blocks of op and judges the answers.
func (c *client) put(op *Op) {
	m := c.r.model
	blocks := c.blocks(op)
	size := c.r.h.Config.Spaces[op.Space].BlockBytes
	items := make([]engine.PutItem, len(blocks))
	puts := make([]*put, len(blocks))
	regions := make([]*region, len(blocks))
	wait := func() {}
	for i, b := range blocks {
		puts[i] = m.beginPut(b)
		g := c.lend(i, op, op.Layout, true)
		g.store(content(puts[i].number, size))
		items[i] = engine.PutItem{Key: c.r.key(b), Src: g.pieces, Depth: uint32(b.key), Importance: op.Importance}
		regions[i] = g
		if op.Meddle > 0 && i == op.Victim%len(blocks) {
			puts[i].mem = g
			wait = c.meddle(op, g)
		}
	}
	// unchanged looks at the memory at the moment when it is the client's again.
	unchanged := func(i int) func() error {
		return func() error {
			want := content(puts[i].number, size)
			regions[i].meddled.apply(want)
			if !sameBut(regions[i].load(), want, change{}) {
				return fmt.Errorf("%s item %d: the source was changed", c.name, i)
			}
			return nil
		}
	}
	o := engine.PutOptions{Deadline: deadline(op), DropIfBusy: op.DropIfBusy, Released: func(i int) {
		m.endPut(puts[i])
		c.r.check(regions[i].release(unchanged(i)))
	}}
	if op.Durable {
		o.Durability = engine.Durable
	}
	begin := m.now()
	o.Incarnation = c.namer(op).incarnation()
	var err error
	late := c.r.calls.runPut(c.name, len(items), o.Deadline, func() { err = c.space(op).Put(items, o) })
	c.inTime(late)
	for i := range items {
		if items[i].Status == engine.Late && err == nil {
			regions[i].setLate()
			continue
		}
		m.endPut(puts[i])
		c.r.check(regions[i].takeBack(unchanged(i)))
	}
	wait()
	c.log("%s", putLine(items, puts, err))
	if err != nil {
		c.callError(err)
		return
	}
	for i := range items {
		c.judgePut(&items[i], blocks[i], puts[i], begin, op)
	}
}

func putLine(items []engine.PutItem, puts []*put, err error) string {
	line := fmt.Sprintf("%v", err)
	for i := range items {
		line += fmt.Sprintf(" %d:%v", puts[i].of.key, items[i].Status)
		if items[i].Err != nil {
			line += fmt.Sprintf("(%v)", items[i].Err)
		}
	}
	return fmt.Sprintf("puts %d..%d of %v: %s", puts[0].number, puts[len(puts)-1].number, puts[0].of, line)
}

func (c *client) judgePut(it *engine.PutItem, b block, p *put, begin uint64, op *Op) {
	m := c.r.model
	c.answer("put %v", it.Status)
	switch it.Status {
	case engine.Stored, engine.Present:
		if it.Status == engine.Present {
			c.r.check(m.present(b, begin, p))
		}
		c.r.check(m.stored(b, begin, op.Durable, c.isDead))
	case engine.Dropped:
		if it.Err == nil {
			c.r.fail("%s: DROPPED without a cause", c.name)
		}
		if errors.Is(it.Err, engine.ErrReadOnly) && !c.isDead() {
			m.sayReadOnly()
		}
	case engine.Late:
		m.late()
		if op.Deadline == 0 {
			c.r.fail("%s: LATE without a deadline", c.name)
		}
	case engine.Busy:
	default:
		c.r.fail("%s: a put was answered %v", c.name, it.Status)
	}
}

// get reads the blocks of op and judges the answers.
func (c *client) get(op *Op) {
	blocks := c.blocks(op)
	items := make([]engine.GetItem, len(blocks))
	regions := make([]*region, len(blocks))
	callback := !op.NoCallback || !op.Bounce && op.Deadline != 0
	wait := func() {}
	for i, b := range blocks {
		regions[i] = c.lend(i, op, op.Layout, callback)
		items[i] = engine.GetItem{Key: c.r.key(b), Dst: regions[i].pieces}
		if op.Meddle > 0 && i == op.Victim%len(blocks) {
			wait = c.meddle(op, regions[i])
		}
	}
	o := engine.GetOptions{Deadline: deadline(op), Bounce: op.Bounce, NoTouch: op.NoTouch}
	if callback {
		o.Released = func(i int) { c.r.check(regions[i].release(nil)) }
	}
	begin := c.r.model.now()
	var err error
	hits := -1
	late := c.r.calls.run(c.name, o.Deadline, func() {
		if op.Kind == MatchGet {
			hits, err = c.space(op).MatchGet(items, o)
		} else {
			err = c.namer(op).get(items, o)
		}
	})
	c.inTime(late)
	line := ""
	for i := range items {
		line += c.judgeGet(&items[i], regions[i], blocks[i], begin, op, err, i >= hits && hits >= 0)
	}
	wait()
	c.log("%v.. %v%s", blocks[0], err, line)
	c.callError(err)
	if err == nil {
		c.checkHits(items, hits)
	}
}

// checkHits demands that MatchGet counts the leading hits.
func (c *client) checkHits(items []engine.GetItem, hits int) {
	n := 0
	for n < len(items) && items[n].Status == engine.Hit {
		n++
	}
	if hits >= 0 && n != hits {
		c.r.fail("%s: says %d leading hits, there are %d", c.name, hits, n)
	}
}

// judgeGet takes the memory of one item back. behind: MatchGet may not have
// looked for the item.
func (c *client) judgeGet(it *engine.GetItem, g *region, b block, begin uint64, op *Op, callErr error, behind bool) string {
	m := c.r.model
	if callErr != nil {
		c.r.check(g.takeBack(nil))
		return ""
	}
	switch it.Status {
	case engine.Late:
		g.setLate()
		m.late()
		if op.Deadline == 0 {
			c.r.fail("%s: LATE without a deadline", c.name)
		}
		if op.Bounce {
			c.r.check(g.takeBack(nil)) // its owner again when the call has returned
		}
	case engine.Hit:
		number := uint64(0)
		c.r.check(g.takeBack(func() error {
			got := g.load()
			number = putOf(got)
			return m.hit(b, got, begin, g.meddled)
		}))
		c.answer("hit %d", number)
		return fmt.Sprintf(" %d:put %d", b.key, number)
	case engine.Miss:
		c.r.check(g.takeBack(nil))
		c.answer("miss")
		c.judgeMiss(it, b, begin, behind)
	case engine.Busy:
		c.r.check(g.takeBack(nil))
	default:
		c.r.fail("%s: a get was answered %v", c.name, it.Status)
	}
	if it.Err != nil {
		return fmt.Sprintf(" %d:%v(%v)", b.key, it.Status, it.Err)
	}
	if it.Status == engine.Miss {
		return fmt.Sprintf(" -%d", b.key)
	}
	return fmt.Sprintf(" %d:%v", b.key, it.Status)
}

func (c *client) judgeMiss(it *engine.GetItem, b block, begin uint64, behind bool) {
	e := c.r.model.excuse
	if c.isDead() || behind {
		return
	}
	select {
	case <-c.lf.over:
		return
	default:
	}
	if errors.Is(it.Err, engine.ErrSick) && (e.slow || e.trouble || e.damage) {
		return
	}
	if errors.Is(it.Err, device.ErrClosed) {
		it.Err = nil // its segment left the store before the read began
	}
	// After a power cut blocks may be lost; that none is called torn, checkStat sees.
	if it.Err != nil && !e.damage && !e.trouble && !e.meddled && !c.r.hadPowerCut(c.lf.number) {
		c.r.fail("HEALTHY CALLED DAMAGED: %s: miss of %v: %w", c.name, b, it.Err)
	}
	c.r.check(c.r.model.miss(b, begin, c.r.evictedSoFar))
}

func (m *model) late() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked.Lates++
}

func (g *region) setLate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late = true
}

// sweep reads every key of every namespace, without deadlines.
func (r *runner) sweep(lf *life) {
	c := &client{r: r, lf: lf}
	c.sweep()
}

func (c *client) sweep() {
	const chunk = 24
	for space := range c.r.h.Config.Spaces {
		for group := range uint32(2) {
			for from := 0; from < c.r.h.Config.Keys; from += chunk {
				c.name = fmt.Sprintf("life %d sweep space %d group %d from %d", c.lf.number, space, group, from)
				c.get(&Op{Kind: Get, Space: space, Group: group, From: from,
					Count: min(chunk, c.r.h.Config.Keys-from), Pieces: 1, NoTouch: true})
			}
		}
	}
}

// finish opens what is left once more, without faults, and reads everything.
func (r *runner) finish() {
	lf := &life{number: len(r.h.Lives), over: make(chan struct{}), dead: make(chan struct{})}
	r.life = lf
	r.log.printf("the end")
	if r.h.Config.DiskBytes > 0 {
		r.fill(0)
	}
	if !r.open(lf, &Life{End: Close}) {
		return
	}
	r.sweep(lf)
	time.Sleep(5 * time.Second)
	st := lf.store.Stat()
	if st.FramesInUse != 0 || st.Health != "ok" {
		r.fail("at the end: %d frames in use, health %s (%s)", st.FramesInUse, st.Health, st.HealthCause)
	}
	r.checkStat(lf)
	if err := r.closeStore(lf); err != nil && !r.failed() {
		r.fail("at the end: Close: %w", err)
	}
	r.settleRegions(lf)
}
