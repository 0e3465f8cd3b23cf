package historytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/engine"
)

// caller is a client at work on one operation.
type caller struct {
	r    *runner
	n    *node
	l    *life
	name string
}

// client runs the operations of a client until they are done.
func (r *runner) client(number int, cl *Client) {
	n := r.nodes[cl.Node]
	for i := range cl.Ops {
		op := &cl.Ops[i]
		if op.Pause > 0 {
			time.Sleep(op.Pause)
		}
		l := n.life()
		if r.failed() {
			return
		}
		if l == nil {
			r.model.note(func(f *Figures) { f.Passed++ })
			continue
		}
		r.model.note(func(f *Figures) { f.Ops++ })
		c := &caller{r: r, n: n, l: l, name: fmt.Sprintf("client %d at node %d op %d %s", number, n.number, i, op.Kind)}
		c.run(op)
	}
}

func (c *caller) run(op *Op) {
	s := c.l.spaces[op.Space]
	if !c.l.isDead() {
		c.floor(s, op.Space)
	}
	switch op.Kind {
	case Put:
		c.put(s, op)
	case Get:
		c.get(s, op)
	case Match:
		c.match(s, op)
	case Delete:
		c.erase(c.blocks(op), s.Delete, op)
	case Drop:
		c.erase([]block{{op.Space, -1}}, func([]engine.Key) (int, error) { return s.Drop() }, op)
	}
}

// floor checks that an incarnation does not fall.
func (c *caller) floor(s Space, space int) {
	at := s.Incarnation()
	if !c.l.isDead() {
		c.r.check(c.r.model.floor(c.n.number, space, at))
	}
}

func (c *caller) blocks(op *Op) []block {
	out := make([]block, op.Count)
	for i := range out {
		out[i] = block{op.Space, (op.From + i) % c.r.h.Config.Keys}
	}
	return out
}

func keysOf(blocks []block) []engine.Key {
	keys := make([]engine.Key, len(blocks))
	for i, b := range blocks {
		keys[i] = engine.Key{Bytes: fmt.Append(nil, "k", b.key)}
	}
	return keys
}

func deadline(op *Op) time.Time {
	if op.Deadline == 0 {
		return time.Time{}
	}
	return time.Now().Add(op.Deadline)
}

func (c *caller) log(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if c.l.isDead() {
		line += " (to nobody)"
	}
	c.r.log.printf("%s: %s", c.name, line)
}

func (c *caller) put(s Space, op *Op) {
	blocks := c.blocks(op)
	first := c.r.model.beginPuts(blocks, c.n.number)
	places := make([]*region, len(blocks))
	src := make([][]byte, len(blocks))
	for i := range blocks {
		src[i] = content(first + uint64(i))
		places[i] = c.r.places.lend(c.name, src[i], slices.Clone(src[i]))
	}
	o := Call{Deadline: deadline(op), Durable: op.Durable, Depth: op.From}
	var got []engine.Status
	c.r.calls.run(c, o.Deadline, callMax, func() { got = s.Put(keysOf(blocks), src, o, func(i int) { places[i].release(c.r) }) })
	dead := c.l.isDead()
	for i, status := range got {
		places[i].answer(c.r, status == engine.Late)
		switch status {
		case engine.Stored, engine.Present, engine.Dropped:
			if !dead {
				c.r.model.endPut(first+uint64(i), status == engine.Stored)
			}
		case engine.Late:
			c.r.model.note(func(f *Figures) { f.Lates++ })
			if op.Deadline == 0 && !dead {
				c.r.fail("%s: LATE without a deadline", c.name)
			}
		default:
			c.r.fail("%s: a put is answered %v", c.name, status)
		}
	}
	c.r.model.note(func(f *Figures) { f.Puts += len(blocks) })
	c.log("%v as puts from %d: %v", blocks, first, got)
}

func (c *caller) get(s Space, op *Op) { c.load(s, c.blocks(op), deadline(op), op.Bounce) }

// load gets blocks, judges them, and returns the statuses.
func (c *caller) load(s Space, blocks []block, deadline time.Time, bounce bool) []engine.Status {
	keys := keysOf(blocks)
	allHere := !slices.Contains(s.Here(keys), false)
	began := c.r.model.moment()
	places, dst := make([]*region, len(blocks)), make([][]byte, len(blocks))
	for i := range blocks {
		dst[i] = make([]byte, blockBytes)
		places[i] = c.r.places.lend(c.name, dst[i], nil)
		c.l.know(i, dst[i])
	}
	since := time.Now()
	var got []engine.Status
	c.r.calls.run(c, deadline, callMax, func() {
		got = s.Get(keys, dst, Call{Deadline: deadline, Bounce: bounce}, func(i int) { places[i].release(c.r) })
	})
	took, dead := time.Since(since), c.l.isDead()
	var text []string
	for i, status := range got {
		t := status.String()
		switch status {
		case engine.Hit:
			if !dead {
				c.r.check(c.r.model.hit(blocks[i], c.n.number, began, dst[i]))
			}
			number, _ := putOf(dst[i])
			t = fmt.Sprint(number)
		case engine.Miss, engine.Busy:
			c.r.model.note(func(f *Figures) { f.Misses++ })
		case engine.Late:
			c.r.model.note(func(f *Figures) { f.Lates++ })
			if deadline.IsZero() && !dead {
				c.r.fail("%s: LATE without a deadline", c.name)
			}
		default:
			c.r.fail("%s: a get is answered %v", c.name, status)
		}
		text = append(text, t)
		places[i].answer(c.r, status == engine.Late)
	}
	if allHere && !dead && took > localMax && !slices.Contains(s.Here(keys), false) {
		c.r.fail("WAIT: %s took %v, though all was here", c.name, took)
	}
	c.log("%v since moment %d: %v", blocks, began, text)
	return got
}

func (c *caller) match(s Space, op *Op) {
	blocks := c.blocks(op)
	var got []bool
	c.r.calls.run(c, time.Now().Add(matchMax), callMax, func() { got = s.Match(keysOf(blocks)) })
	c.log("%v: %v", blocks, got)
}

// erase deletes or drops.
func (c *caller) erase(blocks []block, do func([]engine.Key) (int, error), op *Op) {
	s := c.l.spaces[op.Space]
	before := c.told()
	begun := c.r.model.beginErase(blocks, c.n.number, len(c.r.nodes))
	at := s.Incarnation()
	var missing int
	var err error
	c.r.calls.run(c, time.Time{}, eraseMax, func() { missing, err = do(keysOf(blocks)) })
	c.log("%v: %d missing, %v", blocks, missing, err)
	if c.l.isDead() {
		return
	}
	if err != nil {
		c.r.log.printf("not erased: %v", err)
		return
	}
	if op.Kind == Drop && s.Incarnation() <= at {
		c.r.fail("FLOOR: %s: acknowledged, and the incarnation is %d as before", c.name, at)
	}
	known := []int{c.n.number}
	if missing == 0 {
		after := c.told()
		for _, node := range before {
			if slices.Contains(after, node) {
				known = append(known, node)
			}
		}
	}
	c.r.model.endErase(begun, known)
	c.r.model.note(func(f *Figures) {
		f.Missing += missing
		if op.Kind == Drop {
			f.Drops++
		} else {
			f.Deletes += len(blocks)
		}
	})
}

// told are the nodes that this one believes to be members, and waits for when it erases: one
// that joins learns of it before it answers others, one that leaves is not told.
func (c *caller) told() (numbers []int) {
	for _, m := range c.l.view.Members() {
		if !m.Self && (m.State == member.Active || m.State == member.Draining) {
			numbers = append(numbers, int(m.ID[0])-1)
		}
	}
	return numbers
}
