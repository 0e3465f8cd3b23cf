package node

import (
	"fmt"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// openNamespace opens a namespace for this connection.
func (c *conn) openNamespace(m *wire.OpenNamespace) (wire.Message, error) {
	var d engine.Descriptor
	if err := strictJSON(m.Descriptor, &d); err != nil {
		return nil, argument("descriptor: " + err.Error())
	}
	if err := c.mayOpen(d); err != nil { // before anything is made
		return nil, err
	}
	s, err := c.node.openSpace(d, m.Token)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := &wire.NamespaceOpened{BlockBytes: uint32(s.blockBytes), ID: s.id, Name: s.name}
	for number, open := range c.spaces {
		if open == s {
			answer.Namespace = number
			return answer, nil
		}
	}
	if err := c.spaceLimitLocked(); err != nil {
		return nil, err
	}
	c.lastNumber++
	answer.Namespace = c.lastNumber
	c.spaces[answer.Namespace] = s
	return answer, nil
}

// mayOpen refuses a namespace beyond the connection's bound, unless it is open already.
func (c *conn) mayOpen(d engine.Descriptor) error {
	if err := d.Validate(); err != nil {
		return err
	}
	id, err := d.ID()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.spaces {
		if open.id == id {
			return nil
		}
	}
	return c.spaceLimitLocked()
}

func (c *conn) spaceLimitLocked() error {
	if len(c.spaces) < c.options.NamespacesMax {
		return nil
	}
	return limit(fmt.Sprintf("%d namespaces are open, which is the limit", len(c.spaces)), "raise limits.namespaces in the daemon's configuration")
}

// space is an open namespace of this connection.
func (c *conn) space(number uint32) (*space, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.spaces[number]; s != nil {
		return s, nil
	}
	return nil, unknown(fmt.Sprintf("namespace %d is not open on this connection", number))
}

func (c *conn) dropNamespace(number uint32) (wire.Message, error) {
	s, err := c.space(number)
	if err != nil {
		return nil, err
	}
	return nil, c.node.dropSpace(s)
}
