package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/engine"
)

// operator is the pool as its operator sees and rules it.
type operator struct {
	in   *inPool
	node *node.Node
}

var _ admin.Pool = (*operator)(nil)

func (o *operator) Status() admin.PoolStatus {
	s := o.in.gossip.Status()
	t := o.in.transport
	return admin.PoolStatus{Gossip: s.GossipAddress, Keyring: s.Encrypted, TLS: t.control.Secured(), Ports: t.ports, TransportWhy: t.why, Stat: o.in.pool.Stat()}
}

func (o *operator) Membership() member.Status { return o.in.gossip.Status() }

func (o *operator) Transport() tcp.Counts { return o.in.transport.control.Counts() }

func (o *operator) Events() *journal.Journal { return o.in.events }

func (o *operator) Drain() error { return o.in.pool.Drain() }

func (o *operator) Undrain() error { return o.in.pool.Undrain() }

func (o *operator) Locate(ctx context.Context, namespace string, group uint32, keys [][]byte) (blocks []admin.Located, asked []string, err error) {
	places, err := o.node.Locate(ctx, namespace, group, keys)
	for _, nodes := range places {
		names := []string{}
		for _, m := range nodes {
			names = append(names, m.Name)
		}
		blocks = append(blocks, admin.Located{Nodes: names})
	}
	s := o.in.pool.Stat()
	asked = append(asked, s.Name)
	for i := range s.Peers {
		if s.Peers[i].Usable {
			asked = append(asked, s.Peers[i].Name)
		}
	}
	return blocks, asked, err
}

func (o *operator) Forget(name string) (string, error) {
	s := o.in.gossip.Status()
	m, err := findMember(append(s.Members, member.MemberStatus{Member: s.Self}), name)
	if err != nil {
		return "", err
	}
	if m.Self {
		return "", fmt.Errorf("%w: %s is this node: drain it and stop it", admin.ErrState, m.Name)
	}
	_, err = o.in.gossip.Forget(m.ID.String())
	if errors.Is(err, member.ErrUnknown) { // since
		err = fmt.Errorf("%w: %w", admin.ErrUnknown, err)
	}
	what := fmt.Sprintf("forgot %s (%v)", m.Name, m.ID)
	if m.Health == member.Alive {
		what += "; it was alive: its daemon ends, and joins again when it is started"
	}
	return what, err
}

// idDigitsMin is how much of an ID names a node.
const idDigitsMin = 4

// findMember is the one member with this name, or whose ID begins so.
func findMember(all []member.MemberStatus, name string) (found *member.MemberStatus, err error) {
	for i := range all {
		m := &all[i]
		if m.Name != name && (len(name) < idDigitsMin || !strings.HasPrefix(m.ID.String(), name)) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: more than one node is, or was, called %q; give its ID", engine.ErrConfig, name)
		}
		found = m
	}
	if found == nil {
		return nil, fmt.Errorf("%w: no node is, or was, called %q (spillway pool members)", admin.ErrUnknown, name)
	}
	return found, nil
}

func (o *operator) Keys() []member.KeyInfo { return o.in.gossip.Keys().List() }

func (o *operator) ChangeKeys(do, key string, force bool) (what string, err error) {
	keys := o.in.gossip.Keys()
	switch do {
	case "add":
		var fingerprint string
		if fingerprint, err = keys.Add(key); err == nil {
			what = "added key " + fingerprint
		}
	case "use":
		what, err = "what this node sends is encrypted with "+key, keys.Use(key, force)
	case "remove":
		what, err = "gave key "+key+" up", keys.Remove(key, force)
	default:
		return "", fmt.Errorf("%w: do %q: want add, use or remove", engine.ErrConfig, do)
	}
	switch {
	case errors.Is(err, member.ErrKeyMissing):
		return "", fmt.Errorf("%w: %w (or --force)", admin.ErrState, err)
	case errors.Is(err, member.ErrKey):
		return "", fmt.Errorf("%w: %w", engine.ErrConfig, err)
	case err != nil:
		return "", err
	}
	o.in.events.Add(journal.Keys, "", "an operator changed the keys: %s", what)
	return what, nil
}
