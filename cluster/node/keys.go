package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/prefetch"
)

// strictJSON decodes one JSON value with no unknown fields and nothing behind it.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// keysOf makes the engine's keys; they refer to the request's body.
func (c *conn) keysOf(group uint32, packed wire.Keys) ([]engine.Key, error) {
	if packed.Len() > c.options.KeysMax {
		return nil, limit(fmt.Sprintf("a request of %d keys, %d is the limit", packed.Len(), c.options.KeysMax), "split it")
	}
	keys := make([]engine.Key, packed.Len())
	for i, k := range packed.All() {
		keys[i] = engine.Key{Group: group, Bytes: k}
	}
	return keys, nil
}

// asked is the namespace and the keys that a request names.
func (c *conn) asked(number, group uint32, packed wire.Keys) (s *space, keys []engine.Key, err error) {
	if s, err = c.space(number); err == nil {
		keys, err = c.keysOf(group, packed)
	}
	return s, keys, err
}

// prefixOf is how many keys are here from the first on.
func prefixOf(here []bool) int {
	if gap := slices.Index(here, false); gap >= 0 {
		return gap
	}
	return len(here)
}

// each calls f for every store with its keys and their places in the request; at is
// nil where that is all of them.
func (s *space) each(keys []engine.Key, f func(p *part, keys []engine.Key, at []int) error) error {
	if len(s.parts) == 1 {
		return f(&s.parts[0], keys, nil)
	}
	for i, at := range s.split(keys) {
		if len(at) == 0 {
			continue
		}
		own := make([]engine.Key, len(at))
		for j, k := range at {
			own[j] = keys[k]
		}
		if err := f(&s.parts[i], own, at); err != nil {
			return err
		}
	}
	return nil
}

// present says which keys are here, and leases them if asked.
func (s *space) present(keys []engine.Key, o engine.MatchOptions) (here []bool, leased int, leases []partLease, err error) {
	here = make([]bool, len(keys))
	err = s.each(keys, func(p *part, own []engine.Key, at []int) error {
		r, err := p.ns.Match(own, o)
		if err != nil {
			return err
		}
		if r.Lease != 0 {
			leases = append(leases, partLease{p.ns, r.Lease})
			leased += r.Leased
		}
		if at == nil {
			here = r.Present
			return nil
		}
		for j, i := range at {
			here[i] = r.Present[j]
		}
		return nil
	})
	return here, leased, leases, err
}

// look is a Match or Locate under way: what is here of its keys, and on other nodes.
type look struct {
	space  *space
	keys   []engine.Key
	here   []bool
	lease  time.Duration
	leased int
	leases connLease
	away   *away // nil: nobody else is to be asked
}

// look says which keys are here, and leases them.
func (c *conn) look(number, group uint32, packed wire.Keys, lease time.Duration) (*look, error) {
	s, keys, err := c.asked(number, group, packed)
	if err != nil {
		return nil, err
	}
	l := &look{space: s, keys: keys, lease: lease}
	l.here, l.leased, l.leases.parts, err = s.present(keys, engine.MatchOptions{Lease: lease})
	if err != nil {
		return nil, err
	}
	if c.node.pool != nil {
		s.hideSick(keys, l.here)
		l.away = c.node.absentOf(s, keys, l.here, nil)
	}
	return l, nil
}

// lookFor begins a Match.
func (c *conn) lookFor(m *wire.Match) (*look, error) {
	lease := time.Duration(m.LeaseMS) * time.Millisecond
	if lease > 0 && !c.mayLease() {
		lease = 0
	}
	l, err := c.look(m.Namespace, m.Group, m.Keys, lease)
	if err == nil {
		c.node.predicting.see(prefetch.Asked, l.space, c.number, l.keys, 0)
	}
	return l, err
}

// matched answers a Match.
func (c *conn) matched(m *wire.Match, l *look) wire.Message {
	s, found := l.space, l.found()
	answer := &wire.MatchAnswer{Keys: uint32(len(l.keys)), Leased: uint32(l.leased), Bitmap: make([]byte, (len(l.keys)+7)/8)}
	answer.Lease = c.keepLease(l.leases, l.lease)
	n := 0
	for _, yes := range found {
		if yes {
			n++
		}
	}
	prefix := prefixOf(found)
	if m.ComputeUS > 0 && !l.worth(prefix, s.computing(prefix, m.ComputeUS), c.node.memory) {
		c.node.counters.declined.Add(uint64(n))
		s.counters.declined.Add(uint64(n))
		c.release(answer.Lease)
		answer.Lease, answer.Leased = 0, 0
		prefix = 0
		clear(found)
	}
	for i, yes := range found {
		if yes {
			bit(answer.Bitmap, i)
		}
	}
	answer.Prefix = uint32(prefix)
	for i := len(found) - 1; i >= 0 && found[i] && answer.Trailing < m.Trailing; i-- {
		answer.Trailing++
	}
	c.node.counters.matched.Add(uint64(len(found)))
	c.node.counters.matchedPresent.Add(uint64(n))
	return answer
}

// Where a key is, as Locate says.
const (
	locatedNowhere = iota
	locatedHere
	locatedAway
)

// located answers a Locate.
func (l *look) located() wire.Message {
	b := le.AppendUint32(nil, uint32(len(l.keys)))
	for i, yes := range l.found() {
		switch {
		case l.here[i]:
			b = append(b, locatedHere)
		case yes:
			b = append(b, locatedAway)
		default:
			b = append(b, locatedNowhere)
		}
	}
	return wire.Raw(b)
}

func (c *conn) touch(m *wire.KeyList) (wire.Message, error) {
	n, err := c.counting(m, func(p *part, keys []engine.Key) (int, error) { return p.ns.Touch(keys) })
	if err == nil && c.node.pool != nil && n < m.Keys.Len() {
		n += c.touchAway(m)
	}
	return wire.Number(n), err
}

// counting does something to keys on every store and returns how many there were.
func (c *conn) counting(m *wire.KeyList, do func(p *part, keys []engine.Key) (int, error)) (total int, err error) {
	s, keys, err := c.asked(m.Namespace, m.Group, m.Keys)
	if err != nil {
		return 0, err
	}
	err = s.each(keys, func(p *part, own []engine.Key, _ []int) error {
		n, err := do(p, own)
		total += n
		return err
	})
	return total, err
}
