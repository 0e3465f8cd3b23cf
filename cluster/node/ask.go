package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// A Match or Locate, with or without a pool. What memory alone answers is answered at
// once; who has to ask others does it in a goroutine of its own.

// find serves a Match or Locate. It takes body.
func (c *conn) find(h wire.Header, body []byte) error {
	q := &request{c: c, number: h.Request, kind: h.Type, came: time.Now(), last: true}
	var l *look
	var answer func() wire.Message
	var err error
	if h.Type == wire.TypeMatch {
		m, malformed := wire.ParseMatch(body)
		if malformed != nil {
			return malformed
		}
		l, err = c.lookFor(&m)
		answer = func() wire.Message { return c.matched(&m, l) }
	} else {
		m, malformed := wire.ParseKeyList(body)
		if malformed != nil {
			return malformed
		}
		l, err = c.look(m.Namespace, m.Group, m.Keys, 0)
		answer = func() wire.Message { return l.located() }
	}
	if err == nil && l.away != nil {
		if c.known(h.Request) {
			l.leases.end()
			return fmt.Errorf("%w: request %d is in flight already", wire.ErrMalformed, h.Request)
		}
		if long, ok := c.begin(h, body); ok {
			go long.find(l, answer)
			return nil
		}
		c.node.counters.limited.Add(1) // what is here is better than nothing
	}
	if err != nil {
		q.refuse(err)
	} else {
		q.answer(answer())
	}
	giveBody(body)
	return nil
}

// find asks others, too, and answers.
func (q *request) find(l *look, answer func() wire.Message) {
	l.ask(q.over)
	m := answer()
	q.leave()
	q.answer(m)
	q.finish()
}

// ask asks the other nodes for what is not here.
func (l *look) ask(over <-chan struct{}) {
	l.away.derive()
	found := l.away.pool.Match(l.away.of, l.away.ids, pool.MatchOptions{Lease: l.lease, Done: over})
	l.away.at = found.At
	l.leased += found.Leased
	l.leases.away = found.Release
}

// found says which keys are anywhere.
func (l *look) found() []bool {
	if l.away == nil {
		return l.here
	}
	found := slices.Clone(l.here)
	for j, at := range l.away.at {
		found[l.away.index[j]] = at.Known()
	}
	return found
}

// worth reports whether loading a prefix of what was found is quicker than computing it:
// from drives and other nodes at once, at the rates measured lately and behind what goes
// before it. If the longest prefix is not, no shorter one is: a block costs the same to
// load wherever it lies, and no more to compute the nearer it lies to the beginning.
func (l *look) worth(prefix int, compute time.Duration, tier *memory.Tier) bool {
	s, here := l.space, l.keys[:prefix]
	var load time.Duration
	if l.away != nil {
		here = make([]engine.Key, 0, prefix)
		for i, k := range l.keys[:prefix] {
			if l.here[i] {
				here = append(here, k)
			}
		}
		beyond, _ := slices.BinarySearch(l.away.index, prefix)
		load = l.away.pool.LoadTime(l.away.of, l.away.at[:beyond])
	}
	far := s.far(here, tier)
	if len(far) == 0 && len(here) == prefix { // all of it is in memory
		return true
	}
	return s.judge.Worth(time.Now(), prefix, max(load, s.loadTime(far)), compute)
}

// touchAway touches blocks on other nodes, and returns how many are known.
func (c *conn) touchAway(m *wire.KeyList) int {
	l, err := c.look(m.Namespace, m.Group, m.Keys, 0)
	if err != nil || l.away == nil {
		return 0
	}
	l.away.derive()
	return l.away.pool.Touch(l.away.of, l.away.ids)
}
