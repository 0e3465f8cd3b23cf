package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// deadAddress is one at which nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	tcp, udp, err := listen(Address{Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	defer tcp.Close()
	return tcp.Addr().String()
}

// TestUnreachableAdvertise (P37): who advertises an address where nobody reaches it does
// not become a member, and is told.
func TestUnreachableAdvertise(t *testing.T) {
	t.Parallel()
	all := pool(t, 2)
	at := deadAddress(t)
	lost := node(t, "n3", seeds(all...), func(o *Options) {
		o.Advertise = at
		o.tune = func(tm *timing) {
			quick(tm)
			tm.reachTimeout, tm.answerTimeout = 300*time.Millisecond, 300*time.Millisecond
		}
	})
	until(t, "it must stop", func() bool { return lost.Err() != nil })
	if err := lost.Err(); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), at) {
		t.Errorf("it stops with: %v", err)
	}
	if lost.Status().Established || len(lost.Members()) != 1 {
		t.Errorf("established, with %d members", len(lost.Members()))
	}
	agree(t, all...)
}

// TestFailingLegs (P37): the data address of a member leads nowhere, or its gossip to
// somebody else. Status names leg, member and address.
func TestFailingLegs(t *testing.T) {
	t.Parallel()
	data := deadAddress(t)
	a := node(t, "n1", calm)
	b := node(t, "n2", calm, seeds(a), func(o *Options) { o.DataAddress = data })
	want := "data probe failing to n2 (" + data + "): "
	until(t, "n1 says "+want, func() bool {
		m, ok := memberOf(a, "n2")
		return ok && strings.HasPrefix(m.Legs[2].Error, want) && m.Legs[0].Error == "" && m.Legs[1].Error == "" && m.Legs[0].Tested && m.Legs[1].Tested
	})
	l, err := net.Listen("tcp", data)
	if err != nil {
		t.Skipf("somebody took the address: %v", err)
	}
	defer l.Close()
	until(t, "it works again", func() bool { m, _ := memberOf(a, "n2"); return m.Legs[2].Error == "" })
	agree(t, a, b)
}

// names is a resolver whose answers a test changes.
type names struct {
	mu  sync.Mutex
	ips map[string][]netip.Addr
}

func (n *names) set(name string, ips ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ips[name] = nil
	for _, ip := range ips {
		n.ips[name] = append(n.ips[name], netip.MustParseAddr(ip))
	}
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.ips[host]) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.ips[host], nil
}

// TestNamedSeeds: a name is looked up for ever, and stands for all its addresses, of both
// families.
func TestNamedSeeds(t *testing.T) {
	t.Parallel()
	all := &names{ips: map[string][]netip.Addr{}}
	with := func(o *Options) { o.Resolver = all }
	events := journal.New(nil)
	late := node(t, "n0", with, seedText("pool.test:1"), func(o *Options) { o.Journal = events })
	until(t, "the name is looked up again and again", func() bool {
		s := late.Status().Seeds[0]
		return s.Attempts > 3 && strings.Contains(s.Error, "no such host")
	})
	until(t, "it is said once that the node is alone, and why", func() bool {
		all, _ := events.After(0, 10)
		return len(all) == 1 && all[0].Kind == journal.Trouble && all[0].Times == 1 && strings.Contains(all[0].Text, "pool.test:1 is tried on: ") && strings.Contains(all[0].Text, "no such host")
	})
	until(t, "a node whose seeds are not there is established all the same", func() bool { return late.Status().Established })

	// Two nodes that do not know each other, on one port of two families.
	six := node(t, "n6", with, func(o *Options) { o.Bind = "[::1]:0" })
	port := six.advertise.Port()
	four, err := start(t, "n4", with, func(o *Options) { o.Bind = fmt.Sprintf("127.0.0.1:%d", port) })
	if err != nil {
		t.Skipf("the port is not free for both families: %v", err)
	}
	all.set("pool.test", "127.0.0.1", "::1")
	both := node(t, "n5", with, func(o *Options) { o.Bind = ":0" }, seedText(fmt.Sprintf("pool.test:%d", port)))
	for _, g := range []*Gossip{four, six} {
		until(t, "the node finds "+g.o.Name, func() bool {
			m, ok := memberOf(both, g.o.Name)
			return ok && m.GossipAddress == g.advertise.String()
		})
	}
	until(t, "all addresses of the seed are members", func() bool {
		s := both.Status().Seeds[0]
		return s.Member && len(s.Addresses) == 2
	})
}

// TestIPv6 (P43): a pool of IPv6 alone, with brackets wherever an address is printed.
func TestIPv6(t *testing.T) {
	t.Parallel()
	six := func(o *Options) { o.Bind, o.DataAddress = "[::1]:0", ":7420" }
	all := pool(t, 3, six)
	for _, g := range all {
		for _, m := range g.Members() {
			if m.Address != "[::1]:7420" {
				t.Errorf("data address %s", m.Address)
			}
		}
		until(t, "gossip's legs work", func() bool {
			for _, m := range g.Status().Members {
				if !strings.HasPrefix(m.GossipAddress, "[::1]:") {
					t.Errorf("gossip address %s", m.GossipAddress)
				}
				if !m.Legs[0].Tested || !m.Legs[1].Tested || m.Legs[0].Error+m.Legs[1].Error != "" {
					return false
				}
			}
			return true
		})
	}
	moved := all[2]
	moved.Close()
	back := node(t, "n3", again(moved, seeds(all[0]), six)...)
	agree(t, all[0], all[1], back)
}

// TestAdvertiseDefault: without a word about it a node advertises what others reach.
func TestAdvertiseDefault(t *testing.T) {
	r := &names{ips: map[string][]netip.Addr{}}
	r.set("me.test", "127.0.0.9", "::1")
	for _, c := range []struct {
		bind, advertise, data string
		seeds                 []string
		want, wantData        string
	}{
		{"127.0.0.1:7000", "", ":7001", nil, "127.0.0.1:7000", "127.0.0.1:7001"},
		{"[::1]:7000", "", "0.0.0.0:7001", nil, "[::1]:7000", "[::1]:7001"},
		{":7000", "192.0.2.7", ":7001", nil, "192.0.2.7:7000", "192.0.2.7:7001"},
		{":7000", "192.0.2.7:9000", "data.test:7001", nil, "192.0.2.7:9000", "data.test:7001"},
		{":7000", "me.test", "[::]:7001", nil, "127.0.0.9:7000", "127.0.0.9:7001"},
		{":7000", "[2001:db8::7]:1", ":7001", nil, "[2001:db8::7]:1", "[2001:db8::7]:7001"},
		{"0.0.0.0:7000", "", ":7001", []string{"127.0.0.5"}, "127.0.0.1:7000", "127.0.0.1:7001"},
		{":7000", "", ":7001", []string{"nobody.test", "[::1]:5"}, "[::1]:7000", "[::1]:7001"},
		{"0.0.0.0:7000", "", ":7001", []string{"[::1]:5", "127.0.0.5"}, "127.0.0.1:7000", "127.0.0.1:7001"},
	} {
		o := options(t, "n1", func(o *Options) {
			o.Bind, o.Advertise, o.DataAddress, o.Seeds, o.Resolver = c.bind, c.advertise, c.data, c.seeds, r
		})
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		bind, _ := ParseAddress(c.bind, 0)
		bound := netip.AddrPortFrom(netip.IPv6Unspecified(), bind.Port)
		if ip, ok := bind.IP(); ok {
			bound = netip.AddrPortFrom(ip, bind.Port)
		}
		g := newGossip(o, timing{}, &Keys{})
		at, err := chooseAdvertise(t.Context(), &g.o, bound)
		if err != nil || at.String() != c.want {
			t.Errorf("%+v: advertised %s, %v", c, at, err)
		}
		g.advertise = at
		if err := g.setDataAddress(); err != nil || g.self.Address != c.wantData {
			t.Errorf("%+v: data at %s, %v", c, g.self.Address, err)
		}
		g.stop()
	}
}

// TestBestOf: of a machine's own addresses the one that others may reach is taken.
func TestBestOf(t *testing.T) {
	for _, c := range []struct {
		ips, want string
		only4     bool
	}{
		{"127.0.0.1 ::1 fe80::1 10.0.0.7 2001:db8::7", "10.0.0.7", false},
		{"127.0.0.1 ::1 2001:db8::7", "2001:db8::7", false},
		{"127.0.0.1 ::1 2001:db8::7", "127.0.0.1", true},
		{"::1 fe80::1", "::1", false},
		{"fd00::7 ::1", "fd00::7", false},
		{"203.0.113.7 127.0.0.1", "203.0.113.7", false}, // no private address anywhere
		{"fe80::1", "", false},
		{"::1", "", true},
		{"", "", false},
	} {
		var ips []netip.Addr
		for text := range strings.FieldsSeq(c.ips) {
			ips = append(ips, netip.MustParseAddr(text))
		}
		got, err := bestOf(ips, c.only4)
		if (c.want == "") != (err != nil) || err == nil && got.String() != c.want {
			t.Errorf("%q, only IPv4 %v: %s, %v; want %q", c.ips, c.only4, got, err, c.want)
		}
	}
}
