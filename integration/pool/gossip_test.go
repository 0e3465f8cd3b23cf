package pool

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// legs are what a node says of the ways to another one that do not work.
func (n *node) legs(of string) (failing map[string]string, err error) {
	var m struct {
		Members []struct {
			Name string
			Legs []struct{ Leg, Error string }
		}
	}
	if err := n.ask(&m, "/v1/pool/members"); err != nil {
		return nil, err
	}
	failing = map[string]string{}
	for _, one := range m.Members {
		for _, l := range one.Legs {
			if one.Name == of && l.Error != "" {
				failing[l.Leg] = l.Error
			}
		}
	}
	return failing, nil
}

// TestUDPBlocked: UDP does not pass between one node and the others. It stays a member, data
// goes on, and everybody says which way does not work.
func TestUDPBlocked(t *testing.T) {
	r := newRig(t, 3, "")
	n := r.nodes
	deaf := n[2]
	// What is sent there leads nowhere, and so does what it sends.
	for _, from := range n {
		to := deaf.ip
		if from == deaf {
			to = strings.TrimSuffix(deaf.ip, ".3") + ".0/24"
		}
		r.ip("-n", from.space(), "rule", "add", "to", to, "ipproto", "udp", "blackhole")
	}
	r.start(n...)
	l := r.newLoad("pool")
	l.run(n[0], 1)
	want := fmt.Sprintf("udp probe failing to %s (%s:7421): ", deaf.name, deaf.ip)
	for _, other := range n[:2] {
		r.eventually(other.name+" names the leg", func() error {
			failing, err := other.legs(deaf.name)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(failing["udp"], want) || len(failing) != 1 {
				return fmt.Errorf("failing: %v", failing)
			}
			if text := other.must("pool", "members"); !strings.Contains(text, want) {
				return fmt.Errorf("members says nothing of it:\n%s", text)
			}
			return nil
		})
	}
	time.Sleep(cutTime())
	r.together(n...)
	for _, other := range n {
		if text := other.log.String(); strings.Contains(text, "is no member any more") {
			t.Errorf("%s lost a member:\n%s", other.name, tail(text, 30))
		}
	}
	l.end()
	time.Sleep(settleTime)
	l.sweep(n)
}

// TestUnreachable: who advertises an address where nobody reaches it ends, and says so.
func TestUnreachable(t *testing.T) {
	r := newRig(t, 3, "")
	n := r.nodes
	r.start(n[:2]...)
	lost := n[2]
	lost.extra = fmt.Sprintf("gossip_advertise = %q", strings.TrimSuffix(lost.ip, ".3")+".200:7421")
	lost.start()
	lost.refused("no member reaches this node")
	r.together(n[:2]...)
	lost.extra = ""
	lost.start()
	r.together(n...)
}

// TestIPv6Only: a network without IPv4. A node that is told nothing of addresses finds its
// own; one moves to another address and is the same node.
func TestIPv6Only(t *testing.T) {
	r := newRig(t, 3, "")
	n := r.nodes
	address := func(i int) string { return fmt.Sprintf("fd77::%d", i+1) }
	for i, one := range n {
		r.ip("-n", one.space(), "addr", "flush", "dev", "eth0")
		r.ip("-n", one.space(), "addr", "add", address(i)+"/64", "dev", "eth0", "nodad")
	}
	configure := func(one *node, bind string) string {
		one.configure()
		text, err := os.ReadFile(one.path(".toml"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer(fmt.Sprintf(`bind = "%s:7420"`, one.ip), fmt.Sprintf("bind = %q", bind),
			fmt.Sprintf("%q", n[0].ip), `"[fd77::1]"`, fmt.Sprintf("%q", n[1].ip), `"[fd77::2]:7421"`, fmt.Sprintf("%q, ", n[2].ip), "",
			fmt.Sprintf(", %q", n[2].ip), "").Replace(string(text))
	}
	n[0].startAs(configure(n[0], "[fd77::1]:7420"))
	n[1].startAs(configure(n[1], "[fd77::2]:7420"))
	n[2].startAs(configure(n[2], ":7420"))
	r.together(n...)
	l := r.newLoad("pool")
	for _, one := range n {
		l.run(one, 1)
	}
	for i, one := range n {
		text := n[0].must("pool", "members")
		if want := "[" + address(i) + "]:7420"; !strings.Contains(text, want) {
			t.Errorf("%s is nowhere at %s:\n%s", one.name, want, text)
		}
	}
	n[2].kill()
	r.ip("-n", n[2].space(), "addr", "flush", "dev", "eth0")
	r.ip("-n", n[2].space(), "addr", "add", "fd77::99/64", "dev", "eth0", "nodad")
	n[2].startAs(configure(n[2], ":7420"))
	r.together(n...)
	row := ""
	for line := range strings.Lines(n[0].must("pool", "members")) {
		if strings.HasPrefix(line, n[2].name+" ") {
			row += line
		}
	}
	if !strings.Contains(row, "[fd77::99]:7420") || strings.Contains(row, "[fd77::3]") {
		t.Errorf("%s is not at its new address alone:\n%s", n[2].name, row)
	}
	l.end()
	time.Sleep(settleTime)
	l.sweep(n)
}
