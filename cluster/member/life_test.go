package member

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

// again starts a node that was before, in its next life.
func again(before *Gossip, change ...func(*Options)) []func(*Options) {
	return append([]func(*Options){func(o *Options) {
		o.Identity = Identity{before.o.Identity.ID, before.o.Identity.Start + 1}
	}}, change...)
}

// TestMovedNode (P38): a node is killed and comes back under another address. All list it
// there, and it is the same one.
func TestMovedNode(t *testing.T) {
	t.Parallel()
	all := pool(t, 3)
	old := all[1]
	old.Close() // without a farewell, as a kill
	moved := node(t, "n2", again(old, seeds(all[0]))...)
	if moved.advertise == old.advertise {
		t.Fatalf("it came back at %s, which it had before", moved.advertise)
	}
	agree(t, all[0], moved, all[2])
	for _, g := range []*Gossip{all[0], all[2]} {
		until(t, g.o.Name+" lists n2 at its new address, alive", func() bool {
			m, _ := memberOf(g, "n2")
			return m.GossipAddress == moved.advertise.String() && m.Start == 2 && m.Health == Alive && m.ID == old.o.Identity.ID
		})
		if n := len(g.Status().Members); n != 2 {
			t.Errorf("%s remembers %d others, want 2: %+v", g.o.Name, n, g.Status().Members)
		}
	}
	until(t, "n2 is established", func() bool { return moved.Status().Established })
	if err := moved.Err(); err != nil {
		t.Error(err)
	}
}

// TestRestartAtOnce: a node comes back at its address before anybody missed it.
func TestRestartAtOnce(t *testing.T) {
	t.Parallel()
	all := pool(t, 3)
	old := all[1]
	old.Close()
	back := node(t, "n2", again(old, seeds(all[0]), func(o *Options) { o.Bind = old.advertise.String() })...)
	for _, g := range []*Gossip{all[0], all[2]} {
		until(t, g.o.Name+" lists the second life of n2", func() bool {
			m, _ := memberOf(g, "n2")
			return m.Start == 2 && m.Health == Alive
		})
	}
	agree(t, all[0], back, all[2])
}

// TestReplacedNode: a name is taken over by a node with new drives, once the old one is gone.
func TestReplacedNode(t *testing.T) {
	t.Parallel()
	all := pool(t, 3)
	all[1].Close()
	next := node(t, "n2", seeds(all[0]), func(o *Options) { o.Identity = identityFor("another", 1) })
	agree(t, all[0], next, all[2])
	for _, g := range []*Gossip{all[0], all[2]} {
		until(t, g.o.Name+" has the new n2, and the old one as failed", func() bool {
			live, failed := 0, 0
			for _, m := range g.Status().Members {
				if m.Name == "n2" && m.Health == Alive && m.ID == next.o.Identity.ID {
					live++
				}
				if m.Name == "n2" && m.Health == Failed && m.ID == all[1].o.Identity.ID {
					failed++
				}
			}
			return live == 1 && failed == 1
		})
	}
	if _, err := all[0].Forget("n2"); !errors.Is(err, ErrUnknown) {
		t.Errorf("forgetting one of two that had the name: %v, want to be asked for the ID", err)
	}
	if _, err := all[0].Forget(all[1].o.Identity.ID.String()); err != nil {
		t.Error(err)
	}
	agree(t, all[0], next, all[2])
	for _, g := range []*Gossip{all[0], all[2]} {
		until(t, g.o.Name+" has forgotten the old n2", func() bool { return len(g.Status().Members) == 2 })
	}
}

// TestDuplicate (P38): a second live node with a name, or an ID, stops; the first one is
// not harmed in any way.
func TestDuplicate(t *testing.T) {
	for name, second := range map[string]func(first *Gossip) (string, Identity){
		"name":              func(*Gossip) (string, Identity) { return "n2", identityFor("copy", 1) },
		"name, greater ID":  func(*Gossip) (string, Identity) { return "n2", Identity{ID{0: 255}, 1} },
		"name, smaller ID":  func(*Gossip) (string, Identity) { return "n2", Identity{ID{0: 0, 15: 1}, 1} },
		"ID, later start":   func(f *Gossip) (string, Identity) { return "n9", Identity{f.o.Identity.ID, 7} },
		"ID, same start":    func(f *Gossip) (string, Identity) { return "n9", f.o.Identity },
		"both, later start": func(f *Gossip) (string, Identity) { return "n2", Identity{f.o.Identity.ID, 7} },
		"both, same start":  func(f *Gossip) (string, Identity) { return "n2", f.o.Identity },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := pool(t, 3, calm)
			first := all[1]
			until(t, "the first is established", func() bool { return first.Status().Established })
			called, id := second(first)
			dup := node(t, called, seeds(all[0]), calm, func(o *Options) { o.Identity = id })
			until(t, "the second must stop", func() bool { return dup.Err() != nil })
			<-dup.Refused()
			if err := dup.Err(); !errors.Is(err, ErrDuplicate) {
				t.Errorf("the second stops with: %v", err)
			}
			dup.Close()
			agree(t, all...)
			for _, g := range all {
				if g.Err() != nil {
					t.Errorf("%s must stop: %v", g.o.Name, g.Err())
				}
				for _, m := range g.Status().Members {
					if m.Name == "n2" && (m.GossipAddress != first.advertise.String() || m.ID != first.o.Identity.ID) {
						t.Errorf("%s has n2 at %s, want %s", g.o.Name, m.GossipAddress, first.advertise)
					}
				}
				if c := g.Status().Counters; c.Failed != 0 || c.Left != 0 {
					t.Errorf("%s: %d failed, %d left", g.o.Name, c.Failed, c.Left)
				}
			}
		})
	}
}

// TestNewer: two nodes of one name or ID agree on which of them is the newer one.
func TestNewer(t *testing.T) {
	a, b := identityFor("a", 1), identityFor("b", 1)
	type node struct {
		who who
		at  string
	}
	var all []node
	for _, id := range []Identity{a, b, {a.ID, 2}} {
		for _, established := range []standing{newcomer, alone, accepted} {
			for _, addr := range []string{"127.0.0.1:1", "127.0.0.2:1", "[::1]:1"} {
				all = append(all, node{who{life{id.ID, id.Start}, established}, addr})
			}
		}
	}
	for _, x := range all {
		for _, y := range all {
			if x.at == y.at {
				continue
			}
			one, other := newer(x.who, addrPort(t, x.at), y.who, addrPort(t, y.at)), newer(y.who, addrPort(t, y.at), x.who, addrPort(t, x.at))
			if one == other {
				t.Errorf("%+v and %+v: both say %v", x, y, one)
			}
			if x.who.standing > y.who.standing && one {
				t.Errorf("%+v gives way to %+v", x, y)
			}
		}
	}
}

// TestLeave (P42): who leaves is gone for all, at once and for good, and is not looked for.
func TestLeave(t *testing.T) {
	t.Parallel()
	all := pool(t, 4, calm)
	if err := all[3].Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	agree(t, all[:3]...)
	for _, g := range all[:3] {
		until(t, g.o.Name+" says that n4 has left", func() bool { return healthOf(g, "n4") == Left })
		if c := g.Status().Counters; c.Failed != 0 {
			t.Errorf("%s: %d failed", g.o.Name, c.Failed)
		}
	}
	if err := all[3].Leave(t.Context()); err != nil {
		t.Errorf("a second leave: %v", err)
	}
	back := node(t, "n4", again(all[3], seeds(all[1]))...)
	agree(t, append(slices.Clone(all[:3]), back)...)
}

// TestLeaveRightAfterStart (P42): nodes that leave as soon as they came leave no ghost.
func TestLeaveRightAfterStart(t *testing.T) {
	t.Parallel()
	all := pool(t, 2, calm)
	times := uint64(20)
	if testing.Short() {
		times = 6
	}
	var last *Gossip
	for start := range times {
		last = node(t, "brief", seeds(all...), calm, func(o *Options) { o.Identity = identityFor("brief", start+1) })
		if start%2 == 0 {
			until(t, "somebody has heard of it", func() bool { return len(last.Members()) > 1 })
		}
		if err := last.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	agree(t, all...)
	for _, g := range all {
		// It stays so: a round of probes later nobody has come back or failed.
		before := g.Status().Counters.PacketsOut
		until(t, "time passes", func() bool { return g.Status().Counters.PacketsOut > before+10 })
		if h := healthOf(g, "brief"); h != Left && h != "" {
			t.Errorf("%s finds it %s", g.o.Name, h)
		}
		if n := len(g.Members()); n != 2 {
			t.Errorf("%s lists %d members", g.o.Name, n)
		}
	}
}

// TestLeaveAlone (P42): a node whose peers are down leaves, too.
func TestLeaveAlone(t *testing.T) {
	t.Parallel()
	all := pool(t, 3)
	all[0].Close()
	all[1].Close()
	if err := all[2].Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := node(t, "n7"); n.Leave(t.Context()) != nil {
		t.Error("a node that never had a peer does not leave")
	}
}

// TestForget (P36): an operator's word ends a member's life, whether it is dead or alive,
// and its next life may join again.
func TestForget(t *testing.T) {
	t.Parallel()
	all := pool(t, 3)
	if _, err := all[0].Forget("nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("forgetting nobody: %v", err)
	}
	if _, err := all[0].Forget("n1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("forgetting itself: %v", err)
	}
	if m, err := all[0].Forget("n3"); err != nil || m.ID != all[2].o.Identity.ID {
		t.Fatalf("forget: %+v, %v", m, err)
	}
	if n := len(all[0].Members()); n != 2 {
		t.Errorf("n1 lists %d members right after it", n)
	}
	agree(t, all[:2]...)
	until(t, "the living n3 must stop", func() bool { return errors.Is(all[2].Err(), ErrForgotten) })
	all[2].Close()
	for _, g := range all[:2] {
		until(t, g.o.Name+" has nothing of n3 any more", func() bool { return len(g.Status().Members) == 1 })
	}
	late := node(t, "n4", seeds(all[1])) // it has not heard the word, and learns it
	agree(t, all[0], all[1], late)
	back := node(t, "n3", again(all[2], seeds(late))...)
	agree(t, all[0], all[1], late, back)

	all[1].Close()
	until(t, "n2 has failed", func() bool { return healthOf(all[0], "n2") == Failed })
	if _, err := back.Forget("n2"); err != nil && !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	until(t, "n2 is forgotten", func() bool {
		_, _ = back.Forget("n2") // it may not have failed there yet
		_, known := memberOf(all[0], "n2")
		return !known
	})
	agree(t, all[0], late, back)
}

// TestTwoAddresses: a node that answers at two addresses, of which the others know the
// former one, does not take itself for another.
func TestTwoAddresses(t *testing.T) {
	t.Parallel()
	g := node(t, "n1", func(o *Options) { o.Bind = "127.0.0.1:0" })
	r := newRelay(t, "127.0.1.1")
	r.to(g.bound)
	g.settle(dispute{what: "name", at: r.tcp.Addr().(interface{ AddrPort() netip.AddrPort }).AddrPort()})
	if err := g.Err(); err != nil {
		t.Error(err)
	}
	if _, _, err := g.ask(t.Context(), r.tcp.Addr().(interface{ AddrPort() netip.AddrPort }).AddrPort()); !errors.Is(err, errSelf) {
		t.Errorf("asking itself: %v", err)
	}
}

// TestDuplicateOfALoneNode: the same, where the first has nobody but itself.
func TestDuplicateOfALoneNode(t *testing.T) {
	t.Parallel()
	for _, id := range []Identity{{ID{0: 255}, 1}, {ID{15: 1}, 1}} {
		first := node(t, "n1", calm)
		until(t, "the first is established", func() bool { return first.Status().Established })
		dup := node(t, "n1", calm, seeds(first), func(o *Options) { o.Identity = id })
		until(t, "the second must stop", func() bool { return errors.Is(dup.Err(), ErrDuplicate) })
		if err := first.Err(); err != nil {
			t.Errorf("the first must stop: %v", err)
		}
	}
}

// TestRepeatedLife: a node whose directory was put back to an old copy has a life again
// that is over. The others take nobody in whose life is over, so it must stop, whichever
// member it hears that from; a life that has not been is welcome.
func TestRepeatedLife(t *testing.T) {
	t.Parallel()
	all := pool(t, 3)
	first := all[2]
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Err(); err != nil {
		t.Errorf("a node that leaves is turned away: %v", err)
	}
	agree(t, all[:2]...)
	for _, seed := range all[:2] {
		until(t, seed.o.Name+" has heard that n3 has left", func() bool { return healthOf(seed, "n3") == Left })
		old := node(t, "n3", seeds(seed), func(o *Options) { o.Identity = first.o.Identity })
		until(t, "the repeated life must stop", func() bool { return errors.Is(old.Err(), ErrRepeated) })
		<-old.Refused()
		old.Close()
	}
	agree(t, all[:2]...)
	agree(t, all[0], all[1], node(t, "n3", again(first, seeds(all[0]))...))
}
