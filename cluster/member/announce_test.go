package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// TestRoomIsDebounced: small changes of room are not told, large ones not too often, and
// the last one is; a state is told at once.
func TestRoomIsDebounced(t *testing.T) {
	t.Parallel()
	never := func(o *Options) {
		o.tune = func(tm *timing) {
			quick(tm)
			tm.suspicionMult = 200
			tm.roomInterval = time.Hour
		}
	}
	a := node(t, "n1", never)
	b := node(t, "n2", never, seeds(a))
	agree(t, a, b)
	b.Announce(Active, 6400, 3200)
	until(t, "a state is told, with the room of that moment", func() bool { m, _ := memberOf(a, "n2"); return m.State == Active && m.FreeBytes == 3200 })
	for free := range int64(3000) {
		b.Announce(Active, 6400, free)
	}
	b.Announce(Draining, 6400, 50)
	until(t, "the next state is told", func() bool { m, _ := memberOf(a, "n2"); return m.State == Draining && m.FreeBytes == 50 })
	if m := b.Members(); len(m) != 2 || b.Status().Self.FreeBytes != 50 {
		t.Errorf("the node itself says %+v", b.Status().Self)
	}

	c := node(t, "n3", calm, seeds(a)) // room after 20 ms
	agree(t, a, b, c)
	for free := range int64(3000) {
		c.Announce(Active, 6400, free)
	}
	until(t, "the last room is told, as far as it matters", func() bool { m, _ := memberOf(a, "n3"); return m.FreeBytes >= 2999-100 })
	c.Announce(Active, 6400, 0)
	until(t, "that nothing is free is told in any case", func() bool { m, _ := memberOf(a, "n3"); return m.FreeBytes == 0 })
}

// TestNews says which changes are announced, and which at once.
func TestNews(t *testing.T) {
	base := Member{State: Active, CapacityBytes: 6400, FreeBytes: 3200}
	for name, c := range map[string]struct {
		change      func(*metadata)
		any, urgent bool
	}{
		"nothing":     {func(*metadata) {}, false, false},
		"a little":    {func(m *metadata) { m.member.FreeBytes -= 100 }, false, false},
		"more":        {func(m *metadata) { m.member.FreeBytes += 101 }, true, false},
		"none left":   {func(m *metadata) { m.member.FreeBytes = 0 }, true, false},
		"capacity":    {func(m *metadata) { m.member.CapacityBytes++ }, true, false},
		"state":       {func(m *metadata) { m.member.State = Draining }, true, true},
		"another key": {func(m *metadata) { m.keys = []fingerprint{{2}} }, true, true},
		"no key":      {func(m *metadata) { m.keys = nil }, true, true},
	} {
		g := newGossip(options(t, "n1"), timing{}, &Keys{})
		g.announced = metadata{member: base, keys: []fingerprint{{1}}}
		m := metadata{member: base, keys: []fingerprint{{1}}}
		c.change(&m)
		if any, urgent := g.news(&m); any != c.any || urgent != c.urgent {
			t.Errorf("%s: news %v, urgent %v", name, any, urgent)
		}
		g.stop()
	}
}

// TestNameLength: nobody is taken for a member under a name that no node may have.
func TestNameLength(t *testing.T) {
	g := newGossip(options(t, "n1"), timing{}, &Keys{})
	defer g.stop()
	m := metadata{poolID: g.o.PoolID, member: Member{ID: ID{9}, Start: 1, Address: "10.0.0.9:1", ProtocolLow: g.o.ProtocolLow, ProtocolHigh: g.o.ProtocolHigh}}
	for nBytes, good := range map[int]bool{0: false, 1: true, NameBytesMax: true, NameBytesMax + 1: false, 1 << 15: false} {
		n := &memberlist.Node{Name: strings.Repeat("x", nBytes), Addr: []byte{10, 0, 0, 9}, Port: 7421, Meta: appendMetadata(nil, &m)}
		if err := (delegate{g}).NotifyAlive(n); (err == nil) != good {
			t.Errorf("a name of %d bytes: %v", nBytes, err)
		}
	}
	if g.counters.Malformed != 3 {
		t.Errorf("%d are counted", g.counters.Malformed)
	}
	for k := range g.refusals {
		if len(k.from) > NameBytesMax {
			t.Errorf("%d bytes are remembered", len(k.from))
		}
	}
}

// TestManyNodes (P39): a pool of dozens comes together.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	n := 50
	if testing.Short() || raceDetector {
		n = 8
	}
	// Ordinary times, but nobody fails because all of them share this machine.
	ordinary := func(o *Options) { o.tune, o.Profile = func(tm *timing) { tm.suspicionMult = 200 }, ProfileDefault }
	var all []*Gossip
	for i := range n {
		all = append(all, node(t, fmt.Sprintf("n%02d", i), ordinary, func(o *Options) {
			if i > 0 {
				o.Seeds = []string{all[0].advertise.String(), all[(i-1)/2].advertise.String()}
			}
		}))
	}
	agree(t, all...)
	for _, g := range all {
		if c := g.Status().Counters; c.Foreign+c.Malformed+c.Conflicts != 0 {
			t.Errorf("%s: %+v", g.o.Name, c)
		}
	}
}
