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

func (c *conn) match(m *wire.Match) (wire.Message, error) {
	s, keys, err := c.asked(m.Namespace, m.Group, m.Keys)
	if err != nil {
		return nil, err
	}
	c.node.predicting.see(prefetch.Asked, s, c.number, keys, 0)
	lease := time.Duration(m.LeaseMS) * time.Millisecond
	if lease > 0 && !c.mayLease() {
		lease = 0
	}
	here, leased, leases, err := s.present(keys, engine.MatchOptions{Lease: lease})
	if err != nil {
		return nil, err
	}
	answer := &wire.MatchAnswer{Keys: uint32(len(keys)), Leased: uint32(leased), Bitmap: make([]byte, (len(keys)+7)/8)}
	answer.Lease = c.keepLease(leases, lease)
	found := 0
	for _, yes := range here {
		if yes {
			found++
		}
	}
	prefix := prefixOf(here)
	if m.ComputeUS > 0 && !s.worth(keys[:prefix], s.computing(prefix, m.ComputeUS), c.node.memory) {
		c.node.counters.declined.Add(uint64(found))
		s.counters.declined.Add(uint64(found))
		c.release(answer.Lease)
		answer.Lease, answer.Leased = 0, 0
		prefix = 0
		clear(here)
	}
	for i, yes := range here {
		if yes {
			bit(answer.Bitmap, i)
		}
	}
	answer.Prefix = uint32(prefix)
	for i := len(here) - 1; i >= 0 && here[i] && answer.Trailing < m.Trailing; i-- {
		answer.Trailing++
	}
	c.node.counters.matched.Add(uint64(len(here)))
	c.node.counters.matchedPresent.Add(uint64(found))
	return answer, nil
}

// locate says where blocks are: 1 is this node.
func (c *conn) locate(m *wire.KeyList) (wire.Message, error) {
	s, keys, err := c.asked(m.Namespace, m.Group, m.Keys)
	if err != nil {
		return nil, err
	}
	here, _, _, err := s.present(keys, engine.MatchOptions{})
	if err != nil {
		return nil, err
	}
	b := le.AppendUint32(nil, uint32(len(here)))
	for _, yes := range here {
		if yes {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return wire.Raw(b), nil
}

func (c *conn) touch(m *wire.KeyList) (wire.Message, error) {
	return c.counting(m, func(p *part, keys []engine.Key) (int, error) { return p.ns.Touch(keys) })
}

// counting does something to keys on every store and answers how many there were.
func (c *conn) counting(m *wire.KeyList, do func(p *part, keys []engine.Key) (int, error)) (wire.Message, error) {
	s, keys, err := c.asked(m.Namespace, m.Group, m.Keys)
	if err != nil {
		return nil, err
	}
	total := 0
	err = s.each(keys, func(p *part, own []engine.Key, _ []int) error {
		n, err := do(p, own)
		total += n
		return err
	})
	return wire.Number(total), err
}
