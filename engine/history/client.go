package history

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// client is one caller. It runs its operations one after the other.
type client struct {
	r       *runner
	lf      *life
	name    string
	answers []string // of the twin test; nil elsewhere
}

// client runs ops until they are done or the life is over.
func (r *runner) client(lf *life, n int, ops []Op) {
	c := &client{r: r, lf: lf}
	for i := range ops {
		if ops[i].Pause > 0 && !r.real {
			select {
			case <-time.After(ops[i].Pause):
			case <-lf.over:
			}
		}
		select {
		case <-lf.over:
			return
		default:
		}
		if r.failed() {
			return
		}
		select {
		case lf.begun <- struct{}{}:
		default:
		}
		c.name = fmt.Sprintf("life %d client %d op %d %s", lf.number, n, i, ops[i].Kind)
		c.run(&ops[i])
	}
}

func (c *client) run(op *Op) {
	c.r.model.count()
	switch op.Kind {
	case Put:
		c.put(op)
	case Get, MatchGet:
		c.get(op)
	case Match:
		c.match(op)
	case Touch:
		c.touch(op)
	case Delete:
		c.delete(op)
	case Drop:
		c.drop(op)
	case Release:
		c.release(op)
	case Quota:
		c.quota(op)
	}
}

func (m *model) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked.Ops++
}

// isDead reports whether the process has died: what it answers now reaches nobody.
func (c *client) isDead() bool {
	select {
	case <-c.lf.dead:
		return true
	default:
		return false
	}
}

func (c *client) space(op *Op) *engine.Namespace { return c.lf.spaces[op.Space] }

func (c *client) blocks(op *Op) []block {
	out := make([]block, op.Count)
	for i := range out {
		out[i] = block{op.Space, op.Group, (op.From + i) % c.r.h.Config.Keys}
	}
	return out
}

func (r *runner) key(b block) engine.Key {
	k := fmt.Appendf(make([]byte, 0, r.h.Config.KeyBytes), "k%d", b.key)
	if n := r.h.Config.KeyBytes - len(k); n > 0 {
		k = append(k, bytes.Repeat([]byte{'.'}, n)...)
	}
	return engine.Key{Group: b.group, Bytes: k}
}

func (r *runner) keys(blocks []block) []engine.Key {
	keys := make([]engine.Key, len(blocks))
	for i, b := range blocks {
		keys[i] = r.key(b)
	}
	return keys
}

// callError judges the error of a whole call. Nothing but the end of the life
// may refuse one.
func (c *client) callError(err error) {
	if err == nil || errors.Is(err, engine.ErrClosed) {
		return
	}
	c.r.fail("%s: %w", c.name, err)
}

// log writes one line about a call that has ended.
func (c *client) log(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if c.isDead() {
		line += " (to nobody)"
	}
	c.r.log.printf("%s: %s", c.name, line)
}

func (c *client) answer(format string, args ...any) {
	if c.answers != nil {
		c.answers = append(c.answers, fmt.Sprintf(format, args...))
	}
}

// lend registers memory that is given to the store.
func (c *client) lend(item int, op *Op, layout uint64, callback bool) *region {
	size := c.r.h.Config.Spaces[op.Space].BlockBytes
	g := newRegion(fmt.Sprintf("%s item %d", c.name, item), size, op.Pieces, layout, c.r.h.Config.AlignBytes)
	c.lf.regions.Lock()
	defer c.lf.regions.Unlock()
	c.lf.regions.list = append(c.lf.regions.list, regionOf{g, callback})
	return g
}

// meddle starts the goroutine that changes a word of memory which the store
// has at the moment. Wait for it with the returned function.
func (c *client) meddle(op *Op, g *region) (wait func()) {
	done := make(chan struct{})
	size := c.r.h.Config.Spaces[op.Space].BlockBytes
	go func() {
		defer close(done)
		time.Sleep(op.Meddle)
		g.meddle(8+8*(op.From*7%(size/8-2)), 0x10001)
	}()
	return func() { <-done }
}

// deadline is the absolute deadline of an operation.
func deadline(op *Op) time.Time {
	if op.Deadline == 0 {
		return time.Time{}
	}
	return time.Now().Add(op.Deadline)
}

func (c *client) inTime(late time.Duration) {
	if late > deadlineSlack && !c.r.real {
		c.r.fail("HANG: %s came back %v after its deadline", c.name, late)
	}
}

func (c *client) match(op *Op) {
	blocks := c.blocks(op)
	begin := c.r.model.now()
	var res engine.MatchResult
	var err error
	started := time.Now()
	c.r.calls.run(c.name, time.Time{}, func() {
		res, err = c.namer(op).match(c.r.keys(blocks), engine.MatchOptions{Lease: op.Lease, TrailingN: op.Trailing})
	})
	c.log("%v prefix %d leased %d: %v", err, res.Prefix, res.Leased, blocks[0])
	if err != nil {
		c.callError(err)
		return
	}
	c.answer("match %v %d %d", res.Present, res.Prefix, res.Trailing)
	present := 0
	for i, b := range blocks {
		if res.Present[i] {
			present++
			c.r.check(c.r.model.present(b, begin, nil))
		}
	}
	if err := checkMatch(res, op.Trailing); err != nil {
		c.r.fail("%s: %w", c.name, err)
	}
	if res.Leased > present || (res.Lease == 0) != (res.Leased == 0) {
		c.r.fail("%s: %d present, %d leased under %d", c.name, present, res.Leased, res.Lease)
	}
	if res.Leased == 0 || c.isDead() {
		return
	}
	l := &lease{id: res.Lease, begin: begin, from: c.r.model.now(), until: started.Add(min(op.Lease, time.Minute))}
	if res.Leased == present { // else nobody knows which
		for i, b := range blocks {
			if res.Present[i] {
				l.blocks = append(l.blocks, b)
			}
		}
	}
	c.r.model.addLease(l)
}

// checkMatch compares the sums of a match with its parts.
func checkMatch(res engine.MatchResult, trailingN int) error {
	prefix, trailing := 0, 0
	for prefix < len(res.Present) && res.Present[prefix] {
		prefix++
	}
	for trailing < min(trailingN, len(res.Present)) && res.Present[len(res.Present)-1-trailing] {
		trailing++
	}
	if prefix != res.Prefix || trailing != res.Trailing {
		return fmt.Errorf("prefix %d, trailing %d of %v", res.Prefix, res.Trailing, res.Present)
	}
	return nil
}

func (c *client) touch(op *Op) {
	var n int
	var err error
	c.r.calls.run(c.name, time.Time{}, func() { n, err = c.namer(op).touch(c.r.keys(c.blocks(op))) })
	c.log("%d %v", n, err)
	c.callError(err)
	c.answer("touch %d", n)
	if n > op.Count {
		c.r.fail("%s: touched %d of %d", c.name, n, op.Count)
	}
}

func (c *client) delete(op *Op) {
	blocks := c.blocks(op)
	end := c.r.model.beginErase(blocks, op.Space, false)
	var n int
	var err error
	c.r.calls.run(c.name, time.Time{}, func() { n, err = c.namer(op).delete(c.r.keys(blocks)) })
	end(err == nil && !c.isDead())
	c.log("%v.. x%d: %d %v", blocks[0], len(blocks), n, err)
	c.answer("delete %d", n)
	if n > op.Count {
		c.r.fail("%s: deleted %d of %d", c.name, n, op.Count)
	}
}

// drop and quota change the store file. The store serialises them by a mutex,
// which virtual time cannot see through; so they take turns before.
func (c *client) drop(op *Op) {
	<-c.r.config
	defer func() { c.r.config <- struct{}{} }()
	end := c.r.model.beginErase(nil, op.Space, true)
	var err error
	c.r.calls.run(c.name, time.Time{}, func() { err = c.namer(op).drop() })
	end(err == nil && !c.isDead())
	c.log("space %d: %v", op.Space, err)
	c.answer("drop %v", err)
}

func (c *client) quota(op *Op) {
	<-c.r.config
	defer func() { c.r.config <- struct{}{} }()
	st := c.space(op).Stat()
	segmentBytes := int64(4096 + st.SlotBytes*max(int(c.r.h.Config.SegmentBytes-4096)/st.SlotBytes, 8))
	bytes := segmentBytes * int64(op.Victim)
	var err error
	c.r.calls.run(c.name, time.Time{}, func() { err = c.space(op).SetQuota(bytes) })
	c.log("%d segments: %v", op.Victim, err)
}

func (c *client) release(op *Op) {
	if l := c.r.model.beginRelease(op.Victim); l != nil {
		c.space(op).Release(l.id)
		c.log("lease %d", l.id)
	}
}
