package member

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what the library calls. It holds its own locks meanwhile, so nothing here may
// call it back or wait.
type delegate struct{ g *Gossip }

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
	_ memberlist.MergeDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
	_ memberlist.PingDelegate     = delegate{}
)

func addressOf(n *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port)
}

// NodeMeta is what this node says of itself. It is never longer than limit: see
// metadataBytesMax. The library asks at its start and in announceNow.
func (d delegate) NodeMeta(int) []byte {
	m := d.g.selfMetadata()
	d.g.mu.Lock()
	d.g.announced, d.g.announcedAt = m, time.Now()
	d.g.mu.Unlock()
	d.g.told = appendMetadata(nil, &m)
	return d.g.told
}

// NotifyAlive judges whoever is said to be alive, before the library believes it. An error
// makes the library ignore it.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	if n.Name == d.g.o.Name {
		return nil // this node; another one under its name comes to NotifyConflict
	}
	if len(n.Name) == 0 || len(n.Name) > NameBytesMax {
		err := fmt.Errorf("%w: a name of %d bytes, want 1 to %d", errMetadata, len(n.Name), NameBytesMax)
		d.g.turnedAwayAs(RefusedMalformed, addressOf(n).String(), err.Error())
		return err
	}
	m, err := decodeMetadata(n.Meta)
	if err != nil {
		d.g.turnedAwayAs(RefusedMalformed, n.Name, err.Error())
		return err
	}
	m.member.Name = n.Name
	why, err := d.g.judge(&m, addressOf(n))
	if err != nil {
		d.g.turnedAwayAs(why, n.Name, err.Error())
	}
	return err
}

// NotifyMerge judges the members of whoever joins through this node, or through whom this
// node joins. An error cancels that.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		m, err := decodeMetadata(n.Meta)
		if err == nil && m.poolID != d.g.o.PoolID {
			err = fmt.Errorf("member %s is of the pool %q, not of %q", n.Name, m.poolID, d.g.o.PoolID)
			d.g.turnedAwayAs(RefusedForeign, n.Name, err.Error())
			return err
		}
	}
	return nil
}

// NotifyConflict hears that other has the name of existing, which lives at another address.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == d.g.o.Name {
		d.g.dispute(dispute{what: fmt.Sprintf("name %q", other.Name), at: addressOf(other)})
		return
	}
	d.g.turnedAwayAs(RefusedConflict, addressOf(other).String(), fmt.Sprintf("it calls itself %q, as the node at %s does", other.Name, addressOf(existing)))
}

// NotifyJoin hears of a new member.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.g.arrived(n.Name, n.Meta, addressOf(n)) }

// NotifyUpdate hears that a member describes itself anew.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.g.arrived(n.Name, n.Meta, addressOf(n)) }

// NotifyLeave hears that a member has left, or does not answer anybody.
func (d delegate) NotifyLeave(n *memberlist.Node) { d.g.departed(n.Name) }

// NotifyPingComplete hears of an answer over UDP.
func (d delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	d.g.answered(n.Name, LegUDP, rtt)
}

// AckPayload is part of the library's interface.
func (d delegate) AckPayload() []byte { return nil }

// NotifyMsg takes a message of ours.
func (d delegate) NotifyMsg(b []byte) { d.g.take(b) }

// GetBroadcasts gives the library messages of ours for its next packet.
func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.broadcasts.GetBroadcasts(overhead, limit)
}

// LocalState goes to whoever exchanges everything with this node.
func (d delegate) LocalState(bool) []byte { return d.g.oversState() }

// MergeRemoteState comes from there.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.g.take(b) }

// judge says why somebody may not be a member.
func (g *Gossip) judge(m *metadata, at netip.AddrPort) (Refusal, error) {
	g.mu.Lock()
	why, err := g.judgeLocked(m, at)
	g.mu.Unlock()
	if why == RefusedConflict && m.member.ID == g.o.Identity.ID {
		g.dispute(dispute{what: "ID " + m.member.ID.String(), at: at})
	}
	return why, err
}

func (g *Gossip) judgeLocked(m *metadata, at netip.AddrPort) (Refusal, error) {
	id, name := m.member.ID, m.member.Name
	if m.poolID != g.o.PoolID {
		return RefusedForeign, fmt.Errorf("%s is of the pool %q, not of %q", name, m.poolID, g.o.PoolID)
	}
	if _, is := g.overs[life{id, m.member.Start}]; is {
		return RefusedOver, fmt.Errorf("this life of %s is over", name)
	}
	if max(m.member.ProtocolLow, g.o.ProtocolLow) > min(m.member.ProtocolHigh, g.o.ProtocolHigh) {
		return RefusedIncompatible, fmt.Errorf("%s speaks versions %d to %d of the peers' protocol, this node %d to %d",
			name, m.member.ProtocolLow, m.member.ProtocolHigh, g.o.ProtocolLow, g.o.ProtocolHigh)
	}
	if id == g.o.Identity.ID {
		return RefusedConflict, fmt.Errorf("%s at %s has this node's ID", name, at)
	}
	for other, r := range g.live {
		if r.m.ID == id && other != name && r.doomed.IsZero() {
			return RefusedConflict, fmt.Errorf("%s at %s has the ID of %s at %s", name, at, other, r.at)
		}
	}
	if g.live[name] == nil && len(g.live) >= MembersMax-1 {
		return RefusedFull, fmt.Errorf("%d members are here", MembersMax)
	}
	return "", nil
}

// refusalKey is what refusals are counted by.
type refusalKey struct {
	why  Refusal
	from string
}

// turnedAway counts a packet or stream that was dropped.
func (g *Gossip) turnedAway(why Refusal, from netip.Addr, text string) {
	g.turnedAwayAs(why, from.String(), text)
}

// mismatch counts what could not be decrypted. The address is not known of answers to this
// node's own streams: there the error of the attempt names it.
func (g *Gossip) mismatch(from netip.Addr) {
	if from.IsValid() {
		g.turnedAway(RefusedKey, from, "key mismatch: it encrypts with a key that this node does not have")
	}
}

func (g *Gossip) turnedAwayAs(why Refusal, from, text string) {
	g.mu.Lock()
	*g.counters.of(why)++
	k := refusalKey{why, from}
	r := g.refusals[k]
	if r == nil {
		g.trimRefusalsLocked()
		r = &RefusalStatus{Reason: why, From: from}
		g.refusals[k] = r
	}
	r.Text = text
	r.Count++
	g.refusalAt[k] = time.Now()
	first := r.Count == 1
	g.mu.Unlock()
	if first && why != RefusedOver && why != RefusedConflict {
		g.o.Journal.Add(kindOfRefusal, from, "turned away, %s: %s", why, text)
	}
}

// trimRefusalsLocked makes room for one more.
func (g *Gossip) trimRefusalsLocked() {
	for len(g.refusals) >= RefusalsMax {
		var oldest refusalKey
		at := time.Now()
		for k, t := range g.refusalAt {
			if !t.After(at) {
				oldest, at = k, t
			}
		}
		delete(g.refusals, oldest)
		delete(g.refusalAt, oldest)
	}
}

func (c *Counters) of(why Refusal) *int64 {
	switch why {
	case RefusedForeign:
		return &c.Foreign
	case RefusedKey:
		return &c.KeyMismatch
	case RefusedMalformed:
		return &c.Malformed
	case RefusedIncompatible:
		return &c.Incompatible
	case RefusedConflict:
		return &c.Conflicts
	case RefusedOver:
		return &c.Over
	}
	return &c.TooMany
}
