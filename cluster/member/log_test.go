package member

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// TestLibraryLog: lines of the library become records with their level, few of each kind;
// and what only the log says is heard in every line.
func TestLibraryLog(t *testing.T) {
	var out bytes.Buffer
	var suspected []string
	var from []netip.Addr
	var dropped atomic.Int64
	l := &libraryLog{log: slog.New(slog.NewTextHandler(&out, nil)), dropped: &dropped, kinds: map[string]*lineKind{},
		suspected: func(name string) { suspected = append(suspected, name) }, mismatch: func(a netip.Addr) { from = append(from, a) }}
	for i := range 100 {
		fmt.Fprintf(l, "[INFO] memberlist: Suspect n%d has failed, no acks received\n", i)
		fmt.Fprintf(l, "[ERR] memberlist: Decrypt packet failed: %s from=[2001:db8::%d]:7421\n", undecryptable, i)
	}
	fmt.Fprintf(l, "[DEBUG] memberlist: nobody reads this\n")
	fmt.Fprintf(l, "[ERR] memberlist: failed to receive: %s from=192.0.2.1:5\n", undecryptable)
	fmt.Fprintf(l, "no level at all\n")
	if len(suspected) != 100 || suspected[99] != "n99" {
		t.Errorf("suspected: %v", suspected)
	}
	if len(from) != 101 || from[16] != netip.MustParseAddr("2001:db8::16") || from[100] != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("key mismatches from %v", from)
	}
	text := out.String()
	if n := strings.Count(text, "Decrypt packet failed"); n != linesPerPeriod || strings.Contains(text, "nobody reads") || strings.Contains(text, "memberlist:") {
		t.Errorf("%d lines of one kind:\n%s", n, text)
	}
	if !strings.Contains(text, "level=WARN msg=gossip text=\"failed to receive") || !strings.Contains(text, "level=INFO msg=gossip text=\"no level") {
		t.Errorf("levels:\n%s", text)
	}
	if got := dropped.Load(); got != 2*(100-linesPerPeriod) {
		t.Errorf("%d lines dropped", got)
	}
	for i := range 10 * lineKindsMax {
		fmt.Fprintf(l, "[INFO] kind %s\n", strings.Repeat("x", i))
	}
	if len(l.kinds) > lineKindsMax {
		t.Errorf("%d kinds are remembered", len(l.kinds))
	}
}

// TestSuspectIsTold: a member that does not answer is suspect before it has failed, and
// alive again as soon as it answers. Whoever waits for changes hears of both.
func TestSuspectIsTold(t *testing.T) {
	t.Parallel()
	p := relayedPool(t, 2, calm)
	a := p.nodes[0]
	isSuspect := func() bool {
		for _, m := range a.Members() {
			if m.Name == "n2" {
				return m.Suspect
			}
		}
		return false
	}
	for range 2 {
		changed := a.Changed()
		p.cut(1, 0)
		until(t, "n2 is suspect", isSuspect)
		<-changed
		changed = a.Changed()
		p.heal()
		until(t, "n2 is not suspect any more", func() bool { return !isSuspect() })
		<-changed
	}
	if c := a.Status().Counters; c.Failed != 0 || c.Suspected < 2 {
		t.Errorf("%+v", c)
	}
}
