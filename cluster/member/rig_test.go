package member

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait for what must come. A test that fails waits so long; one that
// passes does not.
const patience = 60 * time.Second

// until waits until ok says so.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come: %s", what)
		}
	}
}

// quick shortens times, so that a test sees failure, oblivion and reunion in seconds.
func quick(t *timing) {
	t.probeInterval, t.probeTimeout, t.suspicionMult = 100*time.Millisecond, 50*time.Millisecond, 2
	t.gossipInterval, t.syncInterval = 20*time.Millisecond, time.Second
	t.gossipToDead, t.roomInterval = 300*time.Millisecond, 20*time.Millisecond
	t.joinRetry, t.joinRetryMax = 50*time.Millisecond, 200*time.Millisecond
	t.legInterval, t.legRetry = 500*time.Millisecond, 50*time.Millisecond
	t.answerTimeout, t.streamTimeout = time.Second, 2*time.Second
}

// calm has nobody fail because this machine is busy: for tests in which nobody should.
func calm(o *Options) {
	o.tune = func(t *timing) {
		quick(t)
		t.suspicionMult = 200
	}
}

// node starts a node with what a test asks for; it is closed at the end.
func node(t *testing.T, name string, change ...func(*Options)) *Gossip {
	t.Helper()
	g, err := start(t, name, change...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func start(t *testing.T, name string, change ...func(*Options)) (*Gossip, error) {
	t.Helper()
	o := options(t, name, change...)
	g, err := Start(o)
	if err == nil {
		t.Cleanup(func() { g.Close() })
		dump(t, g)
	}
	return g, err
}

func options(t *testing.T, name string, change ...func(*Options)) Options {
	t.Helper()
	o := Options{
		PoolID: "red", Name: name, Identity: identityFor(name, 1), Bind: "127.0.0.1:0", DataAddress: dataListener(t),
		Profile: ProfileFast, ProtocolLow: 1, ProtocolHigh: 1, tune: quick,
		Logger: slog.New(slog.NewTextHandler(testWriter{t, name}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// testWriter writes log lines to the test while it runs.
type testWriter struct {
	t    *testing.T
	name string
}

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s: %s", w.name, strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func identityFor(name string, start uint64) Identity {
	h := sha256.Sum256([]byte(name))
	return Identity{ID: ID(h[:16]), Start: start}
}

// dataListener stands for a node's data connections: it takes them and says nothing.
func dataListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func seeds(of ...*Gossip) func(*Options) {
	return func(o *Options) {
		for _, g := range of {
			o.Seeds = append(o.Seeds, g.advertise.String())
		}
	}
}

func seedText(text ...string) func(*Options) {
	return func(o *Options) { o.Seeds = append(o.Seeds, text...) }
}

func addrPort(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// pool starts n nodes that know the first one, and waits until all list all.
func pool(t *testing.T, n int, change ...func(*Options)) []*Gossip {
	t.Helper()
	var all []*Gossip
	for i := range n {
		c := change
		if i > 0 {
			c = append([]func(*Options){seeds(all[0])}, change...)
		}
		all = append(all, node(t, fmt.Sprintf("n%d", i+1), c...))
	}
	agree(t, all...)
	return all
}

// dump shows what nodes think, when a test fails.
func dump(t *testing.T, all ...*Gossip) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, g := range all {
			s := g.Status()
			t.Logf("%s at %s: established %v, refused %q, %+v", g.o.Name, g.advertise, s.Established, s.Refused, s.Counters)
			for _, m := range s.Members {
				t.Logf("  %s %s start %d at %s: %s since %v, legs %+v", m.Name, m.ID, m.Start, m.GossipAddress, m.Health, m.Since, m.Legs)
			}
			for _, r := range s.Seeds {
				t.Logf("  seed %+v", r)
			}
			for _, r := range s.Refusals {
				t.Logf("  refused %+v", r)
			}
		}
	})
}

// agree waits until each of the nodes lists exactly these.
func agree(t *testing.T, all ...*Gossip) {
	t.Helper()
	want := map[string]bool{}
	for _, g := range all {
		want[g.o.Name] = true
	}
	for _, g := range all {
		until(t, fmt.Sprintf("%s lists %v and nobody else", g.o.Name, want), func() bool {
			list := g.Members()
			for _, m := range list {
				if !want[m.Name] {
					return false
				}
			}
			return len(list) == len(want)
		})
	}
}

func memberOf(g *Gossip, name string) (MemberStatus, bool) {
	for _, m := range g.Status().Members {
		if m.Name == name {
			return m, true
		}
	}
	return MemberStatus{}, false
}

func healthOf(g *Gossip, name string) Health {
	m, _ := memberOf(g, name)
	return m.Health
}
